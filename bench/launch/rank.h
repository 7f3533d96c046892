#pragma once

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

// One of several launches, started one after the other by --repeats or by a user of a launcher, each with new
// processes.
struct Launch {
  std::string run_id = {};  // the launch's name, equal on all ranks
  std::string set = {};     // the first launch's run_id, or the user's name for all launches
  int64_t index = 0;

  // In the format of kLaunchVariable.
  std::string text() const { return set.empty() ? "" : gradsync::Join(set, ",", index); }
};

inline constexpr char kLaunchVariable[] = "GRADSYNC_LAUNCH";  // "<set>,<index>"

// The launch from this process's environment, set by SetLaunch or the user; without a run_id. Throws
// InvalidInput.
Launch ThisLaunch();
void SetLaunch(const std::string& set, int64_t index);

// One rank of a run, with everything that does not depend on the measurement: its place, device, groups, file
// of records, progress, and first failure. "All ranks" means that each rank must call the function.
class Rank {
 public:
  // Flushes denormals in this thread, and so in all compute threads, which OpenMP and groups start later.
  // `options` must outlive it. Throws InvalidInput if something that they name does not exist.
  Rank(const RankOptions& options, const comm::World& world, int argc, const char* const* argv,
       ControlGroups control_groups = ControlGroups());

  const comm::World& world() const { return world_; }
  bool is_first() const { return world_.rank == 0; }
  // The seed of all random numbers; each launch has the next seed.
  int64_t seed() const { return options_.seed + ThisLaunch().index; }
  const model::DevicePtr& device() const { return device_; }

  // All ranks: joins a group for each backend (Variant::over), and returns the run's own group, which is the
  // first backend's. Throws like MakeProcessGroup.
  comm::RecordingProcessGroup& Join(const std::vector<std::string>& backends);
  comm::RecordingProcessGroup& own() const { return *groups_.at(own_); }
  // The backend's group; without a backend, the run's own group.
  comm::RecordingProcessGroup& Of(const std::string& backend) const { return *groups_.at(GroupOf(backend)); }
  bool Has(const std::string& backend) const { return groups_.contains(backend); }

  // All ranks: agree on the run's name and start its records and their file, with these options. `record`:
  // the experiment, and the facts of all records. Throws like RecordWriter.
  void SetRecords(Record record);
  // Adds how often a quota has stopped this host's threads since the start; nothing without a quota.
  void DescribeThrottling(FactFields& facts) const;
  // The common start of a backend's records.
  const Record& RecordOf(const std::string& backend) const { return records_.at(GroupOf(backend)); }
  const Launch& launch() const { return launch_; }
  // The output directory of this run.
  const std::string& out() const { return out_; }
  RecordWriter& writer() { return *writer_; }

  // All ranks: like over_ranks.h, in the run's own group. Clears its log.
  template <class T>
  T Reduce(const T& numbers, comm::ReduceOp op) {
    T reduced = ReduceOverRanks(numbers, op, own(), device_);
    own().Clear();
    return reduced;
  }

  // From now on rank 0 shows how many of `num_steps` steps are done, or the rest of `budget`.
  void Expect(int64_t num_steps) {
    progress_.emplace(num_steps, /*budget_ns=*/0, launches_left(), is_first());
  }
  void Expect(std::chrono::nanoseconds budget) {
    progress_.emplace(/*total=*/0, budget.count(), launches_left(), is_first());
  }
  void Step(std::string_view what) { progress_->Step(what); }

  // Rank 0 writes the text to standard output.
  void Print(const std::string& text) const;
  // Keeps the first fault; empty: no fault.
  void AddFault(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  // All ranks, at the end: waits for all ranks; rank 0 prints the text. Throws std::runtime_error on rank 0
  // if there is a fault.
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
  std::map<std::string, Record> records_;                                       // by backend
  const ControlGroups control_groups_;
  ControlGroups::Periods periods_before_;
  Launch launch_;
  std::string out_;
  std::optional<RecordWriter> writer_;
  std::optional<Progress> progress_;
  std::string fault_;
};

}  // namespace gradsync::bench
