#include "bench/timing/phase_timer.h"

#include <gtest/gtest.h>

#include <thread>

namespace gradsync::bench {
namespace {

TEST(HostPhaseTimerTest, MarksAreInOrderAndOfTheLastStep) {
  const model::DevicePtr device = model::CpuDevice();
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  StepMarks previous;
  for (int step = 0; step < 2; ++step) {
    timer->Take(Mark::kStepBegin);
    timer->Take(Mark::kForwardEnd);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    timer->Take(Mark::kBackwardEnd);
    timer->Take(Mark::kSyncEnd);
    timer->Take(Mark::kStepEnd);
    const StepMarks marks = timer->Read();
    const int64_t backward_ns = marks.Between(Mark::kForwardEnd, Mark::kBackwardEnd);
    EXPECT_GE(backward_ns, 2000000);
    EXPECT_GE(marks.step_ns(), backward_ns);
    EXPECT_GE(marks[Mark::kStepBegin], previous[Mark::kStepEnd]);
    previous = marks;
  }
}

}  // namespace
}  // namespace gradsync::bench
