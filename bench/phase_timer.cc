#include "bench/phase_timer.h"

#include "comm/process_group.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

class HostPhaseTimer : public PhaseTimer {
 public:
  void Take(Mark mark) override { marks_.at_ns[static_cast<size_t>(mark)] = comm::Now(); }
  StepMarks Read() override { return marks_; }

 private:
  StepMarks marks_;
};

}  // namespace

std::unique_ptr<PhaseTimer> MakePhaseTimer(const model::Device& device) {
  Require(device.is_cpu(), "phase timer: device is ", device.name(), ", expected cpu");
  return std::make_unique<HostPhaseTimer>();
}

}  // namespace gradsync::bench
