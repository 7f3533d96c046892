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
#include "model/tensor/device.h"

namespace gradsync::bench {

// A launch is one start of all ranks as new processes. The program (with --repeats, --precision or --choose)
// or the user may make several launches, one after the other, because results vary between launches. A
// LaunchId identifies one launch.
struct LaunchId {
  std::string run_id = {};  // name of the launch, equal on all ranks
  std::string set = {};     // run_id of the first launch, or the user's name for all launches
  int64_t index = 0;

  std::string text() const { return set.empty() ? "" : gradsync::Join(set, ",", index); }
};

inline constexpr char kLaunchVariable[] = "GRADSYNC_LAUNCH";  // "<set>,<index>"

// Returns the `set` and `index` of the launch to which this process belongs, with an empty `run_id`. Reads
// `set` and `index` from the environment variable GRADSYNC_LAUNCH, which SetLaunch or the user may have set
// to "<set>,<index>". Returns LaunchId{} if GRADSYNC_LAUNCH is not set or is empty. For any other value,
// throws InvalidInput unless <set> has no comma and is not empty, and <index> is an integer from 0 to
// 999,999.
LaunchId ThisLaunch();
void SetLaunch(const std::string& set, int64_t index);

// A Rank has what every benchmark needs on one rank: the rank's number, device and process groups, the file
// for the rank's records, the progress line, and the first fault (AddFault).
class Rank {
 public:
  // The constructor makes the calling thread, and all threads that this thread starts later, treat denormal
  // numbers as zeros. `options` must outlive the Rank. Throws InvalidInput if the device that `options` names
  // does not exist.
  Rank(const RankOptions& options, const comm::World& world, int argc, const char* const* argv,
       ControlGroups control_groups = ControlGroups());

  // Sets the text Provenance::base_command of the records that SetRecords makes later: the program's path
  // (argv[0]) and the command-line flags `flags`.
  void SetBaseCommand(const std::vector<std::string>& flags);

  const comm::World& world() const { return world_; }
  bool is_first() const { return world_.rank == 0; }
  // Returns the seed of this launch (one start of all ranks): --seed plus the launch's number
  // LaunchId::index.
  int64_t seed() const { return options_.seed + ThisLaunch().index; }
  const model::DevicePtr& device() const { return device_; }

  // Joins one process group for each backend ("gloo", "hierarchical:inner=shm"), and returns the group of the
  // first backend. All ranks must call Join with the same backends. Throws InvalidInput if
  // comm::MakeProcessGroup throws it, for example for an unknown backend or one that does not support the
  // device. Also throws InvalidInput if --interface is given and no backend sends over a network. Throws
  // CollectiveError if another rank does not join within the time of --timeout.
  comm::RecordingProcessGroup& Join(const std::vector<std::string>& backends);
  comm::RecordingProcessGroup& own() const { return *groups_.at(own_); }
  // Returns the process group that Join made for `backend`; if Join did not get this backend, returns the
  // group of Join's first backend.
  comm::RecordingProcessGroup& Of(const std::string& backend) const { return *groups_.at(GroupOf(backend)); }
  bool Has(const std::string& backend) const { return groups_.contains(backend); }

  // Opens the file into which this rank writes its records. For each backend that Join got, copies the
  // argument `record`; RecordOf(backend) returns this copy. Adds to each copy the seed, the device, the
  // numbers of threads and an id of the launch. Also adds facts about the machine and about the backend's
  // process group. All ranks must call SetRecords, because rank 0 sends the launch's id to the other ranks.
  // Throws InvalidInput if the file for the records cannot be made or is not empty.
  void SetRecords(Record record);
  // If periods of a CPU quota have passed since the call of SetRecords, adds two numbers to `facts`: how many
  // periods passed, and in how many of them the quota was used up, so that threads had to wait.
  void DescribeThrottling(FactFields& facts) const;
  const Record& RecordOf(const std::string& backend) const { return records_.at(GroupOf(backend)); }
  const LaunchId& launch() const { return launch_; }
  const std::string& out() const { return out_; }
  RecordWriter& writer() { return *writer_; }

  // Returns, on every rank, the sum (or the mean, maximum or minimum, as `op` says) of `numbers` over all
  // ranks, element by element. All ranks must call Reduce, which communicates over own(), the process group
  // of the first backend that Join got.
  template <class T>
  T Reduce(const T& numbers, comm::ReduceOp op) {
    T reduced = ReduceOverRanks(numbers, op, own(), device_);
    own().Clear();
    return reduced;
  }

  // Starts the display of progress, which only rank 0 prints, for one launch (start of all ranks). The launch
  // takes `num_steps` steps or, in the second overload, steps for about the time `budget`.
  void Expect(int64_t num_steps) {
    progress_.emplace(num_steps, /*budget_ns=*/0, launches_left(), is_first());
  }
  void Expect(std::chrono::nanoseconds budget) {
    progress_.emplace(/*total=*/0, budget.count(), launches_left(), is_first());
  }
  void Step(std::string_view what) { progress_->Step(what); }

  void Print(const std::string& text) const;
  // Keeps `fault`, a text about something that failed, if `fault` is not empty and this rank has kept no
  // other fault yet. On rank 0, Conclude throws std::runtime_error with rank 0's kept text; faults of other
  // ranks are dropped.
  void AddFault(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  // All ranks must call Conclude at the end of the benchmark. Waits until all ranks have called Conclude,
  // then prints `text` on rank 0. On rank 0, throws std::runtime_error if rank 0 has kept a fault (AddFault).
  void Conclude(const std::string& text);

 private:
  int64_t launches_left() const {
    return world_.launched_by_self() ? options_.num_launches() - launch_.index : 1;
  }
  const std::string& GroupOf(const std::string& backend) const { return Has(backend) ? backend : own_; }
  void SetFacts(comm::RecordingProcessGroup& group, Record& record) const;

  const RankOptions& options_;
  const comm::World world_;
  Provenance provenance_;
  const model::DevicePtr device_;
  std::string own_;
  std::map<std::string, std::unique_ptr<comm::RecordingProcessGroup>> groups_;  // by backend
  std::map<std::string, Record> records_;                                       // by backend
  const ControlGroups control_groups_;
  ControlGroups::Periods periods_before_;
  LaunchId launch_;
  std::string out_;
  std::optional<RecordWriter> writer_;
  std::optional<Progress> progress_;
  std::string fault_;
};

}  // namespace gradsync::bench
