#include "bench/timing/op_recorder.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/autograd.h"
#include "model/tensor/device.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {
namespace {

TEST(OpRecorderTest, KeepsNesting) {
  OpRecorder recorder;
  recorder.Begin("outer");
  recorder.Begin("inner");
  recorder.End();
  recorder.End();
  recorder.Begin("next");
  recorder.End();
  const std::vector<TracedOp>& ops = recorder.ops();
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].name, "outer");
  EXPECT_EQ(ops[0].parent, -1);
  EXPECT_EQ(ops[1].name, "inner");
  EXPECT_EQ(ops[1].parent, 0);
  EXPECT_EQ(ops[2].parent, -1);
  EXPECT_LE(ops[0].begin_ns, ops[1].begin_ns);
  EXPECT_LE(ops[1].end_ns, ops[0].end_ns);
  EXPECT_LE(ops[0].end_ns, ops[2].begin_ns);
  recorder.Clear();
  EXPECT_TRUE(recorder.ops().empty());
}

TEST(OpRecorderTest, AComputedOperationBeginsWhereTheOneBeforeEnded) {
  OpRecorder recorder;
  const model::DevicePtr device = model::CpuDevice();
  const model::Tensor tensor = model::Tensor::Zeros(device, {2, 3}, model::DType::kF32);
  const model::Var inputs[] = {model::Var(tensor)};
  const model::Tensor square = model::Tensor::Zeros(device, {3, 3}, model::DType::kF32);
  const model::Var factors[] = {model::Var(tensor), model::Var(square)};
  recorder.Computed("linear", tensor, factors);
  recorder.Computed("second", tensor, inputs);
  recorder.Begin("range");
  recorder.End();
  recorder.Computed("third", tensor, inputs);
  recorder.Begin("backward");
  recorder.End();
  const std::vector<ComputedOp>& ops = recorder.computed();
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].name, "linear");
  EXPECT_EQ(ops[0].flops.forward, 2 * 6 * 3);
  EXPECT_EQ(ops[0].begin_ns, 0);
  EXPECT_EQ(ops[1].begin_ns, ops[0].end_ns);
  EXPECT_EQ(ops[2].begin_ns, recorder.ops()[0].end_ns);
  EXPECT_LE(ops[2].begin_ns, ops[2].end_ns);
  recorder.Clear();
  EXPECT_TRUE(recorder.computed().empty());
}

}  // namespace
}  // namespace gradsync::bench
