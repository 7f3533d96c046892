#ifndef GRADSYNC_BENCH_LAUNCH_RANK_H_
#define GRADSYNC_BENCH_LAUNCH_RANK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/over_ranks.h"
#include "bench/launch/progress.h"
#include "bench/launch/rank_options.h"
#include "bench/records/host.h"
#include "bench/records/record.h"
#include "comm/queue/recording_process_group.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"
#include "model/device.h"

namespace gradsync::bench {

// One of the launches that --repeats, or a user of a launcher, starts one after the other, each of fresh
// processes.
struct Launch {
  std::string run_id = {};  // its name, the same on all ranks
  std::string set = {};     // the first launch's run_id, or the user's name for them
  int64_t index = 0;

  // As kLaunchVariable has it.
  std::string text() const { return set.empty() ? "" : gradsync::Join(set, ",", index); }
};

inline constexpr char kLaunchVariable[] = "GRADSYNC_LAUNCH";  // "<set>,<index>"

// What SetLaunch, or the user, put in this process's environment; without a run_id. Throws InvalidInput.
Launch ThisLaunch();
void SetLaunch(const std::string& set, int64_t index);

// One rank of a run, with all that does not depend on what is measured: its place, its device, its groups,
// its file of records, its progress, its first failure. "All ranks" means that each of them must call.
class Rank {
 public:
  // Flushes denormals in this thread, and so in all that compute: OpenMP and groups start theirs later.
  // `options` must outlive it. Throws InvalidInput if what they name is not there.
  Rank(const RankOptions& options, const comm::World& world, int argc, const char* const* argv,
       ControlGroups control_groups = ControlGroups());

  const comm::World& world() const { return world_; }
  bool is_first() const { return world_.rank == 0; }
  // Of all random numbers: in each launch the next.
  int64_t seed() const { return options_.seed + ThisLaunch().index; }
  const model::DevicePtr& device() const { return device_; }

  // All ranks: joins a group for each backend (Variant::over), and returns the run's own, which is that of
  // the first. Throws like MakeProcessGroup.
  comm::RecordingProcessGroup& Join(const std::vector<std::string>& backends);
  comm::RecordingProcessGroup& own() const { return *groups_.at(own_); }
  // The backend's; the run's own if it has none.
  comm::RecordingProcessGroup& Of(const std::string& backend) const { return *groups_.at(GroupOf(backend)); }
  bool Has(const std::string& backend) const { return groups_.contains(backend); }

  // All ranks: agree on the run's name and begin its records, with these options. `record`: their experiment,
  // and the facts that all have. `with_file`: makes the file for them, and throws like RecordWriter.
  void SetRecords(Record record, bool with_file = true);
  // How often a quota has stopped this host's threads since then; nothing without a quota.
  void DescribeThrottling(FactFields& facts) const;
  // What a backend's records begin with.
  const Record& RecordOf(const std::string& backend) const { return records_.at(GroupOf(backend)); }
  const Launch& launch() const { return launch_; }
  // Where files of this run go.
  const std::string& out() const { return out_; }
  RecordWriter& writer() { return *writer_; }

  // All ranks: see over_ranks.h, in the run's own group, whose log is cleared.
  template <class T>
  T Reduce(const T& numbers, comm::ReduceOp op) {
    T reduced = ReduceOverRanks(numbers, op, own(), device_);
    own().Clear();
    return reduced;
  }

  // From now on rank 0 shows how many of so many steps are done, or how much is left of `budget`.
  void Expect(int64_t num_steps) {
    progress_.emplace(num_steps, /*budget_ns=*/0, launches_left(), is_first());
  }
  void Expect(std::chrono::nanoseconds budget) {
    progress_.emplace(/*total=*/0, budget.count(), launches_left(), is_first());
  }
  void Step(std::string_view what) { progress_->Step(what); }

  // Rank 0 writes it to the standard output.
  void Print(const std::string& text) const;
  // Keeps the first fault that was found; empty: none.
  void AddFault(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  // All ranks, at the end: waits for all of them, and rank 0 prints the text. Throws std::runtime_error on
  // rank 0 if there is a fault.
  void Conclude(const std::string& text);

 private:
  int64_t launches_left() const {
    return world_.launcher == "self" ? options_.num_launches() - launch_.index : 1;
  }
  const std::string& GroupOf(const std::string& backend) const { return Has(backend) ? backend : own_; }
  void SetFacts(comm::RecordingProcessGroup& group, Record& record) const;

  const RankOptions& options_;
  const comm::World world_;
  const Provenance provenance_;
  const model::DevicePtr device_;
  std::string own_;
  std::map<std::string, std::unique_ptr<comm::RecordingProcessGroup>> groups_;  // by backend
  std::map<std::string, Record> records_;                                       // likewise
  const ControlGroups control_groups_;
  ControlGroups::Periods periods_before_;
  Launch launch_;
  std::string out_;
  std::optional<RecordWriter> writer_;
  std::optional<Progress> progress_;
  std::string fault_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RANK_H_
