#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/phase_timer.h"
#include "bench/timing/step_profile.h"
#include "model/autograd.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"
#include "model/transformer/transformer.h"

namespace gradsync::bench {
namespace {

using model::CudaDevice;
using model::DType;
using model::Tensor;

// The times of marks and operations are from events on one stream, each rounded to ns on its own.
constexpr int64_t kRoundingNs = 2'000;

// One step of a small transformer as the trainer takes it, without an optimizer.
StepMarks Step(const std::shared_ptr<CudaDevice>& device, model::Transformer& transformer,
               OpRecorder& recorder) {
  const Tensor ids = Tensor::Zeros(device, {2, 8}, DType::kI32);
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  timer->Take(Mark::kStepBegin);
  device->set_tracer(&recorder);
  const model::Var loss = transformer.Loss({ids, ids});
  timer->Take(Mark::kForwardEnd);
  Backward(loss, transformer.parameters());
  device->set_tracer(nullptr);
  timer->Take(Mark::kBackwardEnd);
  timer->Take(Mark::kSyncEnd);
  timer->Take(Mark::kStepEnd);
  return timer->Read();
}

TEST(CudaOpRecorderTest, OperationsLieWhereTheGpuWasInThem) {
  const auto device = std::make_shared<CudaDevice>(0);
  model::Transformer transformer(
      {.name = "test", .d_model = 16, .d_ff = 32, .num_layers = 2, .num_heads = 2, .vocab_size = 50}, device,
      DType::kF32, 0);
  OpRecorder recorder(*device);
  for (int step = 0; step < 2; ++step) {
    const StepMarks marks = Step(device, transformer, recorder);
    const std::vector<ComputedOp>& computed = recorder.computed();
    ASSERT_FALSE(computed.empty());
    EXPECT_GE(computed.front().end_ns, marks[Mark::kStepBegin]);
    int64_t last_ns = 0;
    for (const ComputedOp& op : computed) {
      EXPECT_EQ(op.begin_ns, last_ns);
      EXPECT_GE(op.end_ns, last_ns);
      last_ns = op.end_ns;
    }
    EXPECT_LE(last_ns, marks[Mark::kForwardEnd] + kRoundingNs);
    // Every operation of forward has its range in backward.
    EXPECT_EQ(recorder.ops().size(), computed.size());
    for (const TracedOp& op : recorder.ops()) {
      EXPECT_GE(op.begin_ns, marks[Mark::kForwardEnd] - kRoundingNs);
      EXPECT_LE(op.begin_ns, op.end_ns);
      EXPECT_LE(op.end_ns, marks[Mark::kBackwardEnd] + kRoundingNs);
    }

    StepProfile profile({1e12, "given"}, "none");
    profile.Add(marks,
                {.forward = marks.Between(Mark::kStepBegin, Mark::kForwardEnd),
                 .backward = marks.Between(Mark::kForwardEnd, Mark::kBackwardEnd),
                 .sync_wait = marks.Between(Mark::kBackwardEnd, Mark::kSyncEnd),
                 .optimizer = marks.Between(Mark::kSyncEnd, Mark::kStepEnd)},
                /*waits=*/{}, computed, recorder.ops());
    Record record;
    profile.WriteTo(record);
    int64_t all_ns = 0;
    for (const auto& [name, samples] : record.samples) all_ns += samples.at(0);
    EXPECT_EQ(all_ns, marks.step_ns());
    recorder.Clear();
  }
}

}  // namespace
}  // namespace gradsync::bench
