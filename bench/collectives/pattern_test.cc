#include "bench/collectives/pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using comm::ReduceOp;
using model::DType;
using model::Tensor;

struct Case {
  DType dtype;
  ReduceOp op;
  int world_size;
};

class PatternTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kNumel = 1001;

  // The reduction, element by element.
  static Tensor Reduced(const Case& c) {
    const model::DevicePtr device = model::CpuDevice();
    std::vector<double> sums(kNumel);
    for (int rank = 0; rank < c.world_size; ++rank) {
      const Tensor input = Tensor::Empty(device, {kNumel}, c.dtype);
      FillPattern(input, rank);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += Get(input, i);
    }
    Tensor result = Tensor::Empty(device, {kNumel}, c.dtype);
    for (size_t i = 0; i < sums.size(); ++i)
      Set(result, i, c.op == ReduceOp::kMean ? sums[i] / c.world_size : sums[i]);
    return result;
  }

  static double Get(const Tensor& tensor, size_t i) {
    switch (tensor.dtype()) {
      case DType::kF32:
        return tensor.data<float>()[i];
      case DType::kF64:
        return tensor.data<double>()[i];
      default:
        return static_cast<float>(tensor.data<model::BF16>()[i]);
    }
  }
  static void Set(const Tensor& tensor, size_t i, double value) {
    switch (tensor.dtype()) {
      case DType::kF32:
        tensor.data<float>()[i] = static_cast<float>(value);
        return;
      case DType::kF64:
        tensor.data<double>()[i] = value;
        return;
      default:
        tensor.data<model::BF16>()[i] = model::BF16(static_cast<float>(value));
    }
  }
};

TEST_P(PatternTest, ExactResultHasNoWrongElement) {
  EXPECT_EQ(CountWrong(Reduced(GetParam()), GetParam().op, GetParam().world_size), 0);
}

TEST_P(PatternTest, EveryWrongElementCounts) {
  const Tensor result = Reduced(GetParam());
  Set(result, 0, Get(result, 0) + 1);
  Set(result, 500, NAN);
  Set(result, 1000, 0);
  EXPECT_EQ(CountWrong(result, GetParam().op, GetParam().world_size), 3);
}

TEST_P(PatternTest, InputIsNotItsOwnReduction) {
  if (GetParam().world_size == 1) GTEST_SKIP() << "the input of a lone rank is the result";
  const Tensor input = Tensor::Empty(model::CpuDevice(), {kNumel}, GetParam().dtype);
  FillPattern(input, 0);
  EXPECT_EQ(CountWrong(input, GetParam().op, GetParam().world_size), kNumel);
}

INSTANTIATE_TEST_SUITE_P(
    All, PatternTest,
    ::testing::Values(Case{DType::kF32, ReduceOp::kSum, 1}, Case{DType::kF32, ReduceOp::kSum, 2},
                      Case{DType::kF32, ReduceOp::kMean, 3}, Case{DType::kF64, ReduceOp::kSum, 5},
                      Case{DType::kF64, ReduceOp::kMean, 7}, Case{DType::kBF16, ReduceOp::kSum, 4},
                      Case{DType::kBF16, ReduceOp::kMean, 4}, Case{DType::kBF16, ReduceOp::kSum, 16}));

TEST_P(PatternTest, APartBeginsWhereItSays) {
  const Tensor whole = Reduced(GetParam());
  const Tensor part = whole.Slice(700, {301});
  EXPECT_EQ(CountWrong(part, GetParam().op, GetParam().world_size, 700), 0);
  EXPECT_GT(CountWrong(part, GetParam().op, GetParam().world_size, 699), 0);
}

TEST_P(PatternTest, EveryDifferentElementCounts) {
  const Tensor input = Tensor::Empty(model::CpuDevice(), {kNumel}, GetParam().dtype);
  FillPattern(input, 3);
  EXPECT_EQ(CountDifferent(input, 3), 0);
  EXPECT_EQ(CountDifferent(input, 2), kNumel);
  Set(input, 0, NAN);
  Set(input, 1000, 0);
  EXPECT_EQ(CountDifferent(input, 3), 2);
}

TEST(PatternTest, KnowsWhereExactnessEnds) {
  EXPECT_EQ(MaxExactWorldSize(DType::kBF16), 16);
  EXPECT_GE(MaxExactWorldSize(DType::kF32), 4096);
}

TEST(PatternTest, RefusesWhatItCannotPredict) {
  const Tensor integers = Tensor::Zeros(model::CpuDevice(), {4}, DType::kI32);
  EXPECT_THROW(FillPattern(integers, 0), InvalidInput);
  EXPECT_THROW(CountWrong(integers, ReduceOp::kSum, 2), InvalidInput);
  const Tensor floats = Tensor::Zeros(model::CpuDevice(), {4}, DType::kF32);
  EXPECT_THROW(CountWrong(floats, ReduceOp::kMax, 2), InvalidInput);
}

}  // namespace
}  // namespace gradsync::bench
