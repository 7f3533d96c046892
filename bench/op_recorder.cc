#include "bench/op_recorder.h"

#include <algorithm>
#include <cstdio>

#include "comm/process_group.h"

namespace gradsync::bench {

OpRecorder::OpRecorder(model::Device& device)
    : gpu_(device.is_cpu() ? nullptr : &model::CudaDevice::Of(device, "recorder of operations")) {}

void OpRecorder::Begin(std::string_view name) {
  ops_.push_back({std::string(name), comm::Now(), 0, open_});
  open_ = static_cast<int>(ops_.size()) - 1;
  if (gpu_ == nullptr) return;
  if (ops_.size() == 1) anchor_ = gpu_->Resource<model::CudaClock>().anchor();
  RecordEvent(2 * ops_.size() - 2);
}

void OpRecorder::End() {
  TracedOp& op = ops_.at(static_cast<size_t>(open_));
  op.end_ns = comm::Now();
  if (gpu_ != nullptr) RecordEvent(2 * static_cast<size_t>(open_) + 1);
  open_ = op.parent;
}

void OpRecorder::RecordEvent(size_t index) {
  while (events_.size() <= index) events_.emplace_back(*gpu_, model::CudaEvent::Timing::kOn);
  events_[index].Record(gpu_->compute_stream());
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

void OpRecorder::Clear() {
  ops_.clear();
  open_ = -1;
  anchor_ = nullptr;
}

void OpProfile::Add(const std::vector<TracedOp>& ops) {
  for (const TracedOp& op : ops) {
    const int64_t duration_ns = op.end_ns - op.begin_ns;
    Total& total = totals_[op.name];
    ++total.calls;
    total.own_ns += duration_ns;
    if (op.parent >= 0) totals_[ops[static_cast<size_t>(op.parent)].name].own_ns -= duration_ns;
  }
  ++steps_;
}

std::string OpProfile::ToString() const {
  std::vector<std::pair<std::string, Total>> rows(totals_.begin(), totals_.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.own_ns > b.second.own_ns; });
  double all_ns = 0;
  for (const auto& [name, total] : rows) all_ns += static_cast<double>(total.own_ns);
  std::string table;
  char line[160];
  std::snprintf(line, sizeof(line), "%-24s %14s %12s %8s\n", "backward operation", "calls per step",
                "ms per step", "share");
  table += line;
  for (const auto& [name, total] : rows) {
    const double own_ns = static_cast<double>(total.own_ns);
    const double steps = static_cast<double>(steps_);
    std::snprintf(line, sizeof(line), "%-24s %14.1f %12.3f %7.1f%%\n", name.c_str(),
                  static_cast<double>(total.calls) / steps, own_ns / steps / 1e6,
                  all_ns > 0 ? 100 * own_ns / all_ns : 0.0);
    table += line;
  }
  return table;
}

}  // namespace gradsync::bench
