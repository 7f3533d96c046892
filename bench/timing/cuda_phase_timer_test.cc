#include <gtest/gtest.h>

#include "bench/timing/phase_timer.h"
#include "comm/process_group.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {
namespace {

using model::CudaDevice;
using model::CudaEvent;
using model::CudaStream;
using model::DType;
using model::Tensor;

// How far the GPU's clock on the host's may be off; far above what it should be.
constexpr int64_t kSlackNs = 1'000'000;

class CudaPhaseTimerTest : public testing::Test {
 protected:
  // Work for the GPU, given to it by the host in much less time than it takes.
  void Compute(int repeats) const {
    for (int i = 0; i < repeats; ++i) large_.Zero();
  }

  const std::shared_ptr<CudaDevice> device_ = std::make_shared<CudaDevice>(0);
  const Tensor large_ = Tensor::Empty(device_, {int64_t{1} << 30}, DType::kU8);
  const std::unique_ptr<PhaseTimer> timer_ = MakePhaseTimer(*device_);
};

TEST_F(CudaPhaseTimerTest, TimesWhatTheGpuDoesAndNotTheHost) {
  EXPECT_EQ(ClockName(*device_), "CUDA events, device, ns");
  for (int step = 0; step < 3; ++step) {
    const int64_t begin_ns = comm::Now();
    timer_->Take(Mark::kStepBegin);
    timer_->Take(Mark::kForwardEnd);  // nothing before it
    Compute(20);
    timer_->Take(Mark::kBackwardEnd);
    timer_->Take(Mark::kSyncEnd);
    Compute(5);
    timer_->Take(Mark::kStepEnd);
    const int64_t enqueued_ns = comm::Now();
    const StepMarks marks = timer_->Read();
    const int64_t done_ns = comm::Now();

    EXPECT_GE(marks[Mark::kStepBegin], begin_ns - kSlackNs);
    EXPECT_LE(marks[Mark::kStepEnd], done_ns + kSlackNs);
    for (size_t i = 1; i < kNumMarks; ++i) EXPECT_GE(marks.at_ns[i], marks.at_ns[i - 1]);
    const int64_t backward_ns = marks.Between(Mark::kForwardEnd, Mark::kBackwardEnd);
    EXPECT_GT(backward_ns, marks.Between(Mark::kSyncEnd, Mark::kStepEnd));
    EXPECT_GT(backward_ns, marks.Between(Mark::kStepBegin, Mark::kForwardEnd) +
                               marks.Between(Mark::kBackwardEnd, Mark::kSyncEnd));
    // The marks are the GPU's: it was still busy when the host had given it everything.
    EXPECT_GT(marks[Mark::kStepEnd], enqueued_ns - kSlackNs);
  }
}

TEST_F(CudaPhaseTimerTest, MarksThatWereNotTakenAreZero) {
  timer_->Take(Mark::kStepBegin);
  timer_->Take(Mark::kStepEnd);
  const StepMarks marks = timer_->Read();
  EXPECT_GT(marks.step_ns(), 0);
  EXPECT_EQ(marks[Mark::kForwardEnd], 0);
  EXPECT_EQ(marks[Mark::kSyncEnd], 0);
}

// What another stream does while the compute stream works is not part of a phase; what the compute stream
// waits for is.
TEST_F(CudaPhaseTimerTest, ExposedSynchronisationIsWhatTheComputeStreamWaitsFor) {
  const CudaStream side(*device_);
  const CudaEvent side_done(*device_);
  const Tensor target = Tensor::Empty(device_, {large_.numel()}, DType::kU8);
  const auto step = [&](int repeats) {
    timer_->Take(Mark::kStepBegin);
    timer_->Take(Mark::kForwardEnd);
    for (int i = 0; i < repeats; ++i) side.Copy(target.raw_data(), large_.raw_data(), large_.nbytes());
    side_done.Record(side);
    timer_->Take(Mark::kBackwardEnd);
    device_->compute_stream().Wait(side_done);
    timer_->Take(Mark::kSyncEnd);
    timer_->Take(Mark::kStepEnd);
    return timer_->Read();
  };
  step(1);
  const StepMarks waited = step(20);
  const auto sync_ns = [](const StepMarks& marks) {
    return marks.Between(Mark::kBackwardEnd, Mark::kSyncEnd);
  };
  EXPECT_GT(sync_ns(waited), waited.Between(Mark::kForwardEnd, Mark::kBackwardEnd));
  EXPECT_GT(sync_ns(waited), sync_ns(step(0)));
}

}  // namespace
}  // namespace gradsync::bench
