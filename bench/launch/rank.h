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

// One of several launches, which --repeats or the user starts one after the other. Each launch has new
// processes.
struct LaunchId {
  std::string run_id = {};  // name of the launch, equal on all ranks
  std::string set = {};     // run_id of the first launch, or the user's name for all launches
  int64_t index = 0;

  // Returns the launch in the format of kLaunchVariable.
  std::string text() const { return set.empty() ? "" : gradsync::Join(set, ",", index); }
};

inline constexpr char kLaunchVariable[] = "GRADSYNC_LAUNCH";  // "<set>,<index>"

// Reads the launch from this process's environment, which SetLaunch or the user has set. The launch has no
// run_id. Throws InvalidInput.
LaunchId ThisLaunch();
void SetLaunch(const std::string& set, int64_t index);

// One rank of a run, with everything that does not depend on the measurement: its place, device, groups, file
// of records, progress, and first failure. "All ranks" means that each rank must call the function.
class Rank {
 public:
  // Flushes denormals in this thread, and therefore in all compute threads, which OpenMP and groups start
  // later. `options` must outlive the Rank. Throws InvalidInput if something that the options name does not
  // exist.
  Rank(const RankOptions& options, const comm::World& world, int argc, const char* const* argv,
       ControlGroups control_groups = ControlGroups());

  // Sets Provenance::base_command of later records: the program's name, and these flags.
  void SetBaseCommand(const std::vector<std::string>& flags);

  const comm::World& world() const { return world_; }
  bool is_first() const { return world_.rank == 0; }
  // Returns the seed of all random numbers. The seed grows by one with each launch.
  int64_t seed() const { return options_.seed + ThisLaunch().index; }
  const model::DevicePtr& device() const { return device_; }

  // Joins a group for each backend (Variant::over), and returns the run's own group, which is the group of
  // the first backend. All ranks must call this. Throws like MakeProcessGroup.
  comm::RecordingProcessGroup& Join(const std::vector<std::string>& backends);
  comm::RecordingProcessGroup& own() const { return *groups_.at(own_); }
  // Returns the group of the backend; without a backend, the run's own group.
  comm::RecordingProcessGroup& Of(const std::string& backend) const { return *groups_.at(GroupOf(backend)); }
  bool Has(const std::string& backend) const { return groups_.contains(backend); }

  // Agrees with all ranks on the run's name, and starts the run's records and their file, with the options.
  // All ranks must call this. `record` has the experiment, and the facts of all records. Throws like
  // RecordWriter.
  void SetRecords(Record record);
  // Adds to `facts` how often threads of this host had to wait since the start because a quota of CPU time
  // was used up. Adds nothing without a quota.
  void DescribeThrottling(FactFields& facts) const;
  // Returns the record that contains what all records of a backend have in common.
  const Record& RecordOf(const std::string& backend) const { return records_.at(GroupOf(backend)); }
  const LaunchId& launch() const { return launch_; }
  // Returns the output directory of this run.
  const std::string& out() const { return out_; }
  RecordWriter& writer() { return *writer_; }

  // Runs functions of over_ranks.h in the run's own group, and clears the log of this group. All ranks must
  // call these functions.
  template <class T>
  T Reduce(const T& numbers, comm::ReduceOp op) {
    T reduced = ReduceOverRanks(numbers, op, own(), device_);
    own().Clear();
    return reduced;
  }

  // Starts the display of progress on rank 0: how many of `num_steps` steps are done, or the rest of
  // `budget`.
  void Expect(int64_t num_steps) {
    progress_.emplace(num_steps, /*budget_ns=*/0, launches_left(), is_first());
  }
  void Expect(std::chrono::nanoseconds budget) {
    progress_.emplace(/*total=*/0, budget.count(), launches_left(), is_first());
  }
  void Step(std::string_view what) { progress_->Step(what); }

  // Writes the text to standard output on rank 0.
  void Print(const std::string& text) const;
  // Keeps the first fault. An empty text is no fault.
  void AddFault(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  // Waits for all ranks, and prints the text on rank 0. All ranks must call this at the end. Throws
  // std::runtime_error on rank 0 if there is a fault.
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
