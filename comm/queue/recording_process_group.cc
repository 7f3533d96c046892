#include "comm/queue/recording_process_group.h"

#include <algorithm>
#include <utility>

namespace gradsync::comm {
namespace {

// Enough for a step of a usual model, so that logging does not allocate during a timed step.
constexpr size_t kReservedEntries = 4096;

}  // namespace

class RecordingProcessGroup::TimedWork : public Work::State {
 public:
  TimedWork(Work work, std::shared_ptr<Waited> waited, int64_t sequence, Collective collective)
      : work_(std::move(work)), waited_(std::move(waited)), sequence_(sequence), collective_(collective) {}

  void Wait() override {
    const int64_t begin_ns = Now();
    work_.Wait();
    const int64_t end_ns = Now();
    waited_->sums_ns[static_cast<size_t>(collective_)] += end_ns - begin_ns;
    waited_->waits.push_back({sequence_, collective_, {begin_ns, end_ns}});
  }
  Interval interval() override { return work_.interval(); }
  bool Done() override { return work_.Done(); }

 private:
  Work work_;
  const std::shared_ptr<Waited> waited_;
  const int64_t sequence_;
  const Collective collective_;
};

RecordingProcessGroup::RecordingProcessGroup(std::unique_ptr<ProcessGroup> inner)
    : GroupDecorator(std::move(inner)) {
  entries_.reserve(kReservedEntries);
  works_.reserve(kReservedEntries);
  waited_->waits.reserve(kReservedEntries);
}

Work RecordingProcessGroup::Issue(Request request) {
  Entry entry{.sequence = next_sequence_,
              .collective = request.collective,
              .op = request.op,
              .root = request.root,
              .dtype = request.dtype(),
              .bytes = request.bytes(),
              .num_hosts = request.within_host ? size() / host_group()->size() : 1,
              .issue_ns = Now()};
  works_.push_back(GroupDecorator::Issue(std::move(request)));
  entries_.push_back(entry);
  ++next_sequence_;
  return Work(std::make_shared<TimedWork>(works_.back(), waited_, entry.sequence, entry.collective));
}

const std::vector<RecordingProcessGroup::Entry>& RecordingProcessGroup::Finish() {
  for (; num_finished_ < entries_.size(); ++num_finished_) {
    works_[num_finished_].Wait();
    entries_[num_finished_].interval = works_[num_finished_].interval();
    works_[num_finished_] = Work();  // releases the work, which keeps tensors alive
  }
  return entries_;
}

void RecordingProcessGroup::Clear() {
  entries_.clear();
  works_.clear();
  waited_->waits.clear();
  num_finished_ = 0;
}

std::vector<Interval> Intervals(std::span<const RecordingProcessGroup::Entry> entries) {
  std::vector<Interval> intervals;
  intervals.reserve(entries.size());
  for (const auto& entry : entries) intervals.push_back(entry.interval);
  return intervals;
}

int64_t BusyNs(std::span<const Interval> intervals, int64_t from_ns, int64_t to_ns) {
  std::vector<Interval> sorted(intervals.begin(), intervals.end());
  std::ranges::sort(sorted, {}, &Interval::start_ns);
  int64_t busy_ns = 0;
  int64_t covered_until_ns = from_ns;
  for (const Interval& interval : sorted) {
    const int64_t start_ns = std::max(interval.start_ns, covered_until_ns);
    const int64_t end_ns = std::min(interval.end_ns, to_ns);
    if (end_ns <= start_ns) continue;
    busy_ns += end_ns - start_ns;
    covered_until_ns = end_ns;
  }
  return busy_ns;
}

}  // namespace gradsync::comm
