#include "comm/recording_process_group.h"

#include <algorithm>
#include <utility>

namespace gradsync::comm {
namespace {

// Enough for every step of a usual model, so that logging does not allocate while a step is timed.
constexpr size_t kReservedEntries = 4096;

int64_t LargerBytes(const model::Tensor& a, const model::Tensor& b) {
  return static_cast<int64_t>(std::max(a.nbytes(), b.nbytes()));
}

}  // namespace

RecordingProcessGroup::RecordingProcessGroup(std::unique_ptr<ProcessGroup> inner) : inner_(std::move(inner)) {
  entries_.reserve(kReservedEntries);
  works_.reserve(kReservedEntries);
}

Work RecordingProcessGroup::AllReduce(model::Tensor tensor, ReduceOp op) {
  Entry entry{.collective = Collective::kAllReduce, .op = op, .dtype = tensor.dtype(), .issue_ns = Now()};
  entry.bytes = static_cast<int64_t>(tensor.nbytes());
  return Log(entry, inner_->AllReduce(std::move(tensor), op));
}

Work RecordingProcessGroup::Broadcast(model::Tensor tensor, int root) {
  Entry entry{.collective = Collective::kBroadcast, .root = root, .dtype = tensor.dtype(), .issue_ns = Now()};
  entry.bytes = static_cast<int64_t>(tensor.nbytes());
  return Log(entry, inner_->Broadcast(std::move(tensor), root));
}

Work RecordingProcessGroup::ReduceScatter(model::Tensor input, model::Tensor output, ReduceOp op) {
  Entry entry{.collective = Collective::kReduceScatter, .op = op, .dtype = input.dtype(), .issue_ns = Now()};
  entry.bytes = LargerBytes(input, output);
  return Log(entry, inner_->ReduceScatter(std::move(input), std::move(output), op));
}

Work RecordingProcessGroup::AllGather(model::Tensor input, model::Tensor output) {
  Entry entry{.collective = Collective::kAllGather, .dtype = input.dtype(), .issue_ns = Now()};
  entry.bytes = LargerBytes(input, output);
  return Log(entry, inner_->AllGather(std::move(input), std::move(output)));
}

void RecordingProcessGroup::Barrier() {
  Entry entry{.collective = Collective::kBarrier, .dtype = model::DType::kU8, .issue_ns = Now()};
  inner_->Barrier();
  entry.interval = {.start_ns = entry.issue_ns, .end_ns = Now()};
  Log(entry, Work());
}

const std::vector<RecordingProcessGroup::Entry>& RecordingProcessGroup::Finish() {
  for (; num_finished_ < entries_.size(); ++num_finished_) {
    if (entries_[num_finished_].collective == Collective::kBarrier) continue;
    works_[num_finished_].Wait();
    entries_[num_finished_].interval = works_[num_finished_].interval();
    works_[num_finished_] = Work();  // which keeps its tensors alive
  }
  return entries_;
}

void RecordingProcessGroup::Clear() {
  entries_.clear();
  works_.clear();
  num_finished_ = 0;
}

Work RecordingProcessGroup::Log(Entry entry, Work work) {
  entry.sequence = next_sequence_++;
  entries_.push_back(entry);
  works_.push_back(work);
  return work;
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
