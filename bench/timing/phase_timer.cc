#include "bench/timing/phase_timer.h"

#include <vector>

#include "comm/process_group.h"
#include "model/tensor/cuda_clock.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

class HostPhaseTimer : public PhaseTimer {
 public:
  void Take(Mark mark) override {
    if (mark == Mark::kStepBegin) marks_ = {};
    marks_.at_ns[static_cast<size_t>(mark)] = comm::Now();
  }
  StepMarks Read() override { return marks_; }

 private:
  StepMarks marks_;
};

class CudaPhaseTimer : public PhaseTimer {
 public:
  explicit CudaPhaseTimer(model::CudaDevice& device)
      : device_(device), clock_(device.Resource<model::CudaClock>()) {
    for (size_t i = 0; i < kNumMarks; ++i) events_.emplace_back(device, model::CudaEvent::Timing::kOn);
  }

  void Take(Mark mark) override {
    if (mark == Mark::kStepBegin) {
      taken_ = {};
      anchor_ = clock_.Anchor();
    }
    taken_[static_cast<size_t>(mark)] = true;
    events_[static_cast<size_t>(mark)].Record(device_.compute_stream());
  }

  StepMarks Read() override {
    StepMarks marks;
    for (size_t i = 0; i < kNumMarks; ++i) {
      if (!taken_[i]) continue;
      events_[i].Synchronize();
      marks.at_ns[i] = anchor_->TimeOf(events_[i]);
    }
    return marks;
  }

 private:
  model::CudaDevice& device_;
  model::CudaClock& clock_;
  std::shared_ptr<const model::CudaAnchor> anchor_;  // of this step
  std::vector<model::CudaEvent> events_;             // by mark
  std::array<bool, kNumMarks> taken_{};              // in this step
};

}  // namespace

std::unique_ptr<PhaseTimer> MakePhaseTimer(model::Device& device) {
  if (device.is_cpu()) return std::make_unique<HostPhaseTimer>();
  return std::make_unique<CudaPhaseTimer>(model::CudaDevice::Of(device, "phase timer"));
}

std::string_view ClockName(const model::Device& device) {
  return device.is_cpu() ? "steady_clock, host, ns" : "CUDA events, device, ns";
}

}  // namespace gradsync::bench
