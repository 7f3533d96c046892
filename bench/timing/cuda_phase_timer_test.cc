#include <gtest/gtest.h>

#include "bench/timing/phase_timer.h"
#include "comm/process_group.h"
#include "model/cuda_device.h"
#include "model/tensor.h"

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
    for (const int64_t phase_ns :
         {marks.forward_ns(), marks.backward_ns(), marks.sync_exposed_ns(), marks.optimizer_ns()}) {
      EXPECT_GE(phase_ns, 0);
    }
    EXPECT_GT(marks.backward_ns(), marks.optimizer_ns());
    EXPECT_GT(marks.backward_ns(), marks.forward_ns() + marks.sync_exposed_ns());
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
  EXPECT_GT(waited.sync_exposed_ns(), waited.backward_ns());
  EXPECT_GT(waited.sync_exposed_ns(), step(0).sync_exposed_ns());
}

}  // namespace
}  // namespace gradsync::bench
