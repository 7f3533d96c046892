#include "bench/timing/op_recorder.h"

#include <algorithm>

#include "comm/process_group.h"

namespace gradsync::bench {

OpRecorder::OpRecorder(model::Device& device, model::Tracer* next)
    : next_(next),
      gpu_(device.is_cpu() ? nullptr : &model::CudaDevice::Of(device, "recorder of operations")) {}

void OpRecorder::Begin(std::string_view name) {
  if (next_ != nullptr) next_->Begin(name);
  ops_.push_back({std::string(name), comm::Now(), 0, open_});
  open_ = static_cast<int>(ops_.size()) - 1;
  if (gpu_ != nullptr) RecordEvent(events_, 2 * ops_.size() - 2);
}

void OpRecorder::End() {
  TracedOp& op = ops_.at(static_cast<size_t>(open_));
  op.end_ns = comm::Now();
  if (gpu_ != nullptr) RecordEvent(events_, 2 * static_cast<size_t>(open_) + 1);
  open_ = op.parent;
  if (next_ != nullptr) next_->End();
}

void OpRecorder::Computed(std::string_view name, const model::Tensor& output,
                          std::span<const model::Var> inputs) {
  const int64_t end_ns = comm::Now();
  if (gpu_ != nullptr) RecordEvent(computed_events_, computed_.size());
  computed_.push_back({std::string(name), FlopsOf(name, output, inputs), 0, end_ns});
  ranges_before_.push_back(ops_.size());
}

void OpRecorder::RecordEvent(Events& events, size_t index) {
  if (anchor_ == nullptr) anchor_ = gpu_->Resource<model::CudaClock>().anchor();
  while (events.size() <= index) events.emplace_back(*gpu_, model::CudaEvent::Timing::kOn);
  events[index].Record(gpu_->compute_stream());
}

const std::vector<TracedOp>& OpRecorder::ops() {
  if (gpu_ == nullptr || anchor_ == nullptr) return ops_;
  for (size_t i = 0; i < ops_.size(); ++i) {
    events_[2 * i + 1].Synchronize();
    ops_[i].begin_ns = anchor_->TimeOf(events_[2 * i]);
    ops_[i].end_ns = anchor_->TimeOf(events_[2 * i + 1]);
  }
  return ops_;
}

const std::vector<ComputedOp>& OpRecorder::computed() {
  const std::vector<TracedOp>& ranges = ops();
  for (size_t i = 0; i < computed_.size(); ++i) {
    if (gpu_ != nullptr) {
      computed_events_[i].Synchronize();
      computed_[i].end_ns = anchor_->TimeOf(computed_events_[i]);
    }
    if (i > 0) computed_[i].begin_ns = computed_[i - 1].end_ns;
    for (size_t range = 0; range < ranges_before_[i]; ++range)
      computed_[i].begin_ns = std::max(computed_[i].begin_ns, ranges[range].end_ns);
  }
  return computed_;
}

void OpRecorder::Clear() {
  ops_.clear();
  computed_.clear();
  ranges_before_.clear();
  open_ = -1;
  anchor_ = nullptr;
}

}  // namespace gradsync::bench
