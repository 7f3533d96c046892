#include "bench/timing/phase_timer.h"

#include <gtest/gtest.h>

#include <thread>

namespace gradsync::bench {
namespace {

TEST(StepMarksTest, PhasesAddUpToTheStep) {
  const StepMarks marks{{100, 130, 200, 205, 260}};
  EXPECT_EQ(marks.forward_ns(), 30);
  EXPECT_EQ(marks.backward_ns(), 70);
  EXPECT_EQ(marks.sync_exposed_ns(), 5);
  EXPECT_EQ(marks.optimizer_ns(), 55);
  EXPECT_EQ(marks.step_ns(),
            marks.forward_ns() + marks.backward_ns() + marks.sync_exposed_ns() + marks.optimizer_ns());
}

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
    EXPECT_GE(marks.backward_ns(), 2000000);
    EXPECT_GE(marks.step_ns(), marks.backward_ns());
    EXPECT_GE(marks[Mark::kStepBegin], previous[Mark::kStepEnd]);
    previous = marks;
  }
}

}  // namespace
}  // namespace gradsync::bench
