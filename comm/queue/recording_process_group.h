#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "comm/process_group.h"

namespace gradsync::comm {

// A process group that forwards every collective to another process group, and logs the collectives and those
// calls of Work::Wait for them that return without an exception.
class RecordingProcessGroup : public GroupDecorator {
 public:
  struct Entry {
    int64_t sequence = 0;  // number of the collective, counted from 0 since construction
    Collective collective = Collective::kBarrier;
    ReduceOp op = ReduceOp::kSum;  // used by kAllReduce and kReduceScatter
    int root = -1;                 // used by kBroadcast
    model::DType dtype = model::DType::kF32;
    // The size, in bytes, of the collective's tensor, or of the larger of its two tensors; 0 for a barrier.
    int64_t bytes = 0;
    int num_hosts = 1;     // if more than 1, the collective is within a host (HostGroup)
    int64_t issue_ns = 0;  // time when the call was made, on the clock of Now()
    Interval interval{};   // time during which the data moved
  };
  // A WaitEntry is the log of one call of Work::Wait that returned without an exception. A caller may wait
  // for one collective several times; each of these calls has its own WaitEntry.
  struct WaitEntry {
    int64_t sequence = 0;  // of the collective, as in its Entry
    Collective collective = Collective::kBarrier;
    Interval interval{};  // from the call to its return, on the clock of Now()
  };

  explicit RecordingProcessGroup(std::unique_ptr<ProcessGroup> inner);

  Work Issue(Request request) override;

  // Returns the collectives issued since the last call of Clear (or since construction), in the order of
  // issue. The member `interval` of an Entry is {0, 0} until Finish sets it.
  const std::vector<Entry>& entries() const { return entries_; }
  // Waits for all collectives of entries(), fills in the intervals of these entries, and releases this
  // group's handles (Work) of the collectives. At the first collective that failed, Finish throws
  // CollectiveError; the intervals of this and later entries stay {0, 0}.
  const std::vector<Entry>& Finish();
  // Returns the calls of Work::Wait since the last call of Clear (or since construction) that have returned
  // without an exception, in the order in which they returned. Waits inside RecordingProcessGroup::Finish are
  // not in the returned list. Only one thread at a time may call Work::Wait for collectives of this group,
  // because no lock protects this list.
  const std::vector<WaitEntry>& waits() const { return waited_->waits; }
  // Deletes the logged collectives (entries()) and the logged calls of Work::Wait (waits()). The next
  // collective continues the numbering (Entry::sequence), and the total time of waits (waited_ns()) keeps its
  // value.
  void Clear();
  // Returns the total time, in nanoseconds, of all calls of Work::Wait for collectives of this group since
  // construction. Calls that threw an exception, and waits inside Finish, are not counted.
  int64_t waited_ns() const {
    return std::accumulate(waited_->sums_ns.begin(), waited_->sums_ns.end(), int64_t{0});
  }
  int64_t waited_ns(Collective collective) const { return waited_->sums_ns[static_cast<size_t>(collective)]; }

 private:
  struct Waited {
    std::array<int64_t, static_cast<size_t>(Collective::kBarrier) + 1> sums_ns{};  // by collective
    std::vector<WaitEntry> waits;
  };
  class TimedWork;

  std::vector<Entry> entries_;
  std::vector<Work> works_;                                            // one work for each entry
  const std::shared_ptr<Waited> waited_ = std::make_shared<Waited>();  // works may outlive the group
  int64_t next_sequence_ = 0;
  size_t num_finished_ = 0;  // number of entries with an interval
};

std::vector<Interval> Intervals(std::span<const RecordingProcessGroup::Entry> entries);

// Returns how many nanoseconds of the time from `from_ns` to `to_ns` lie in at least one of `intervals`.
int64_t BusyNs(std::span<const Interval> intervals, int64_t from_ns, int64_t to_ns);

}  // namespace gradsync::comm
