#include "model/vision/vision_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/function_suite.h"
#include "model/gradient_check.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"
#include "model/vision/vision_cases.h"

namespace gradsync::model {
namespace {

INSTANTIATE_TEST_SUITE_P(SmallVision, FunctionTest, testing::ValuesIn(SmallVisionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(SmallVision, FunctionThreadsTest, testing::ValuesIn(SmallVisionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(LargeVision, FunctionTest, testing::ValuesIn(LargeVisionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(LargeVision, FunctionThreadsTest, testing::ValuesIn(LargeVisionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(SmallVision, FunctionGradientTest, testing::ValuesIn(SmallVisionCases()), CaseName);

using testing::ElementsAre;

template <class T>
Tensor Of(const DevicePtr& device, Shape shape, const std::vector<T>& values) {
  return Tensor::From<T>(device, std::move(shape), std::span<const T>(values));
}

Tensor Normal(const DevicePtr& device, Shape shape, DType dtype, uint64_t stream) {
  Tensor tensor = Tensor::Empty(device, std::move(shape), dtype);
  FillTruncatedNormal(tensor, 1.0, /*seed=*/9, stream);
  return tensor;
}

BatchNormBuffers Buffers(const DevicePtr& device, int64_t channels, DType dtype = DType::kF32) {
  return {.running_mean = Tensor::Zeros(device, {channels}, dtype),
          .running_var = Tensor::Zeros(device, {channels}, dtype),
          .num_batches_tracked = Tensor::Zeros(device, {}, DType::kI64)};
}

TEST(VisionFunctionsTest, TheSameVariableTwice) {
  const DevicePtr device = CpuDevice();
  const auto check = [&](Shape shape, const std::function<Var(const Var&)>& fn) {
    return CheckGradients([fn](const std::vector<Var>& v) { return fn(v[0]); },
                          {Normal(device, std::move(shape), DType::kF64, 0)});
  };
  const Var one(Of<double>(device, {2}, {0.5, 2})), two(Of<double>(device, {2}, {1, -1}));
  EXPECT_TRUE(check({2, 2, 2, 3, 1}, [&](const Var& v) {
    return BatchNorm2d(v, one, two, Buffers(device, 2, DType::kF64), {.eps = 0.1, .relu = true}, v);
  }));
  const Var x(Normal(device, {2, 2, 2, 3, 1}, DType::kF64, 1));
  EXPECT_TRUE(check({2}, [&](const Var& v) {
    return BatchNorm2d(x, v, v, Buffers(device, 2, DType::kF64), {.eps = 0.1, .relu = true});
  }));
}

// A batch that is filled again between forward and backward.
TEST(VisionFunctionsTest, ATargetThatWasChangedIsAnError) {
  const DevicePtr device = CpuDevice();
  Parameter x("x", Normal(device, {2, 8}, DType::kF32, 0));
  std::vector<Parameter*> list{&x};
  const Tensor target = Normal(device, {2, 8}, DType::kF32, 1);
  Backward(MeanSquaredError(x, target), list);
  const Var loss = MeanSquaredError(x, target);
  FillUniform(target, 0, 1, /*seed=*/0, /*stream=*/0);
  EXPECT_THROW(Backward(loss, list), std::logic_error);
}

Tensor Rounded(const Tensor& x) {
  Tensor rounded = Tensor::Empty(x.device(), x.shape(), DType::kBF16);
  Cast(x, rounded);
  return rounded;
}

// With activations in bf16, too, what belongs to channels is f32.
TEST(VisionFunctionsTest, BatchNormMovesItsBuffers) {
  const DevicePtr device = CpuDevice();
  // The channels have means 2 and 10, and unbiased variances 4 and 0.
  const Tensor wide = Of<float>(device, {1, 2, 3, 1, 1}, {0, 2, 4, 10, 10, 10});
  for (const Tensor& x : {wide, Rounded(wide)}) {
    const BatchNormBuffers buffers = Buffers(device, 2);
    buffers.running_var.CopyFrom(Of<float>(device, {2}, {1, 1}));
    const Var weight(Of<float>(device, {2}, {1, 1})), bias(Of<float>(device, {2}, {0, 0}));
    BatchNorm2d(Var(x), weight, bias, buffers, {.momentum = 0.25});
    EXPECT_THAT(buffers.running_mean.ToVector<float>(), ElementsAre(0.5f, 2.5f));
    EXPECT_THAT(buffers.running_var.ToVector<float>(), ElementsAre(1.75f, 0.75f));
    EXPECT_THAT(buffers.num_batches_tracked.ToVector<int64_t>(), ElementsAre(1));
    BatchNorm2d(Var(x), weight, bias, buffers, {.momentum = 0.25});
    EXPECT_THAT(buffers.running_mean.ToVector<float>(), ElementsAre(0.875f, 4.375f));
    EXPECT_THAT(buffers.running_var.ToVector<float>(), ElementsAre(2.3125f, 0.5625f));
    EXPECT_THAT(buffers.num_batches_tracked.ToVector<int64_t>(), ElementsAre(2));
  }
}

// Far from zero a sum of squares in f32 would lose the variance altogether. The mean is known to half an ulp
// of f32, which is what is allowed, in units of the standard deviation.
TEST(VisionFunctionsTest, BatchNormOfValuesFarFromZero) {
  const DevicePtr device = CpuDevice();
  const int64_t channels = 16, pixels = 61;
  const float offset = 4096, half_ulp = 0x1p-12f;
  for (const int64_t block : {1, 8, 16}) {
    const Shape shape{3, channels / block, pixels, pixels, block};
    const Tensor near = Normal(device, shape, DType::kF64, 2);
    const Tensor far = Tensor::Empty(device, shape, DType::kF32);
    for (int64_t i = 0; i < far.numel(); ++i) {
      far.data<float>()[i] = static_cast<float>(near.data<double>()[i]) + offset;
      near.data<double>()[i] = static_cast<double>(far.data<float>()[i]) - static_cast<double>(offset);
    }
    const std::vector<double> one(static_cast<size_t>(channels), 1), zero(one.size(), 0);
    const Tensor want =
        BatchNorm2d(Var(near), Var(Of<double>(device, {channels}, one)),
                    Var(Of<double>(device, {channels}, zero)), Buffers(device, channels, DType::kF64), {})
            .value();
    const std::vector<float> one_f(one.begin(), one.end()), zero_f(zero.begin(), zero.end());
    const Tensor got = BatchNorm2d(Var(far), Var(Of<float>(device, {channels}, one_f)),
                                   Var(Of<float>(device, {channels}, zero_f)), Buffers(device, channels), {})
                           .value();
    for (int64_t i = 0; i < got.numel(); ++i) {
      ASSERT_NEAR(got.data<float>()[i], want.data<double>()[i], 2 * half_ulp) << block << " " << i;
    }
  }
}

TEST(VisionFunctionsTest, MaxPoolTakesTheFirstOfEqualOnesAndNaN) {
  const DevicePtr device = CpuDevice();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Parameter x("x", Of<float>(device, {1, 1, 2, 4, 1},
                             {-1, -1, 3, 1,  //
                              -1, -1, nan, 5}));
  const Var y = MaxPool2d(x, 2, 2, 0);
  EXPECT_EQ(y.value().data<float>()[0], -1);
  EXPECT_TRUE(std::isnan(y.value().data<float>()[1]));
  std::vector<Parameter*> list{&x};
  Backward(Project({y}, Of<float>(device, {1, 1, 1, 2, 1}, {2, 3})), list);
  EXPECT_THAT(x.grad().ToVector<float>(), ElementsAre(2, 0, 0, 0, 0, 0, 3, 0));
}

TEST(VisionFunctionsTest, ReluLetsNaNThrough) {
  const DevicePtr device = CpuDevice();
  const Tensor x = Of<float>(device, {1, 1, 1, 2, 1}, {1, std::numeric_limits<float>::quiet_NaN()});
  const Var one(Of<float>(device, {1}, {1}));
  const Tensor y = BatchNorm2d(Var(x), one, one, Buffers(device, 1), {.relu = true}).value();
  EXPECT_TRUE(std::isnan(y.data<float>()[0]));
}

TEST(VisionFunctionsTest, WeightsAreReadyBeforeTheInputsGradientIsComputed) {
  const DevicePtr device = CpuDevice();
  Parameter x("x", Normal(device, {2, 3, 4, 4, 1}, DType::kF32, 0));
  Parameter conv("conv", Normal(device, {8, 3, 3, 3}, DType::kF32, 1));
  Parameter weight("weight", Normal(device, {8}, DType::kF32, 2));
  Parameter bias("bias", Normal(device, {8}, DType::kF32, 3));
  Parameter fc_bias("fc_bias", Normal(device, {8}, DType::kF32, 4));
  std::vector<Parameter*> list{&x, &conv, &weight, &bias, &fc_bias};
  const Var h = BatchNorm2d(Conv2d(x, conv, {.padding = 1, .out_block = 8}), weight, bias, Buffers(device, 8),
                            {.relu = true});
  const Var loss =
      MeanSquaredError(AddBias(GlobalAveragePool(h), fc_bias), Tensor::Zeros(device, {2, 8}, DType::kF32));
  std::vector<std::string> order;
  Backward(loss, list, [&](Parameter& param) { order.push_back(param.name()); });
  EXPECT_THAT(order, ElementsAre("fc_bias", "weight", "bias", "conv", "x"));
}

TEST(VisionFunctionsTest, AChannelBlockDividesTheChannels) {
  const DevicePtr device = CpuDevice();
  EXPECT_EQ(ChannelBlock(*device, DType::kF32, 3), 1);
  EXPECT_EQ(ChannelBlock(*device, DType::kF32, 12), 1);
  EXPECT_THAT(ChannelBlock(*device, DType::kF32, 64), testing::AnyOf(8, 16));
}

TEST(VisionFunctionsTest, RefusesWhatCannotWork) {
  using testing::AllOf;
  using testing::HasSubstr;
  const DevicePtr device = CpuDevice();
  const auto f32 = [&](Shape shape) { return Var(Tensor::Zeros(device, std::move(shape), DType::kF32)); };

  const auto conv = [&](Shape x, Shape weight, Conv2dOptions options) {
    return ErrorOf([&] { Conv2d(f32(x), f32(weight), options); });
  };
  EXPECT_THAT(conv({2, 3, 8, 8}, {4, 3, 3, 3}, {}),
              AllOf(HasSubstr("conv2d: x is (2, 3, 8, 8) f32"), HasSubstr("block")));
  EXPECT_THAT(conv({2, 3, 8, 8, 4}, {4, 12, 3, 3}, {}), HasSubstr("block of 1, 8 or 16"));
  EXPECT_THAT(conv({0, 3, 8, 8, 1}, {4, 3, 3, 3}, {}), HasSubstr("not empty"));
  EXPECT_THAT(conv({2, 3, 8, 8, 1}, {4, 5, 3, 3}, {}),
              AllOf(HasSubstr("(2, 3, 8, 8, 1)"), HasSubstr("weight is (4, 5, 3, 3)")));
  EXPECT_THAT(conv({2, 3, 8, 8, 1}, {4, 3, 3, 2}, {}), HasSubstr("weight is (4, 3, 3, 2)"));
  EXPECT_THAT(conv({2, 3, 8, 8, 1}, {4, 3, 3, 3}, {.stride = 0}), HasSubstr("stride is 0"));
  EXPECT_THAT(conv({2, 3, 8, 8, 1}, {4, 3, 3, 3}, {.padding = -1}), HasSubstr("padding -1"));
  EXPECT_THAT(conv({2, 3, 8, 2, 1}, {4, 3, 3, 3}, {}), HasSubstr("a window of 3 x 3 does not fit"));
  EXPECT_THAT(conv({2, 3, 8, 8, 1}, {4, 3, 3, 3}, {.out_block = 8}), HasSubstr("in blocks of 8"));

  const auto norm = [&](Shape x, int64_t channels, const BatchNormBuffers& buffers, const Var& residual) {
    return ErrorOf([&] { BatchNorm2d(f32(x), f32({channels}), f32({channels}), buffers, {}, residual); });
  };
  const Shape x{2, 1, 3, 3, 8};
  EXPECT_THAT(norm({2, 8, 3, 3}, 8, Buffers(device, 8), Var()), HasSubstr("x is (2, 8, 3, 3)"));
  EXPECT_THAT(norm(x, 4, Buffers(device, 8), Var()), HasSubstr("weight is (4)"));
  EXPECT_THAT(norm(x, 8, Buffers(device, 4), Var()), HasSubstr("running_mean is (4)"));
  EXPECT_THAT(norm(x, 8, Buffers(device, 8, DType::kF64), Var()), HasSubstr("running_mean is (8) f64"));
  EXPECT_THAT(norm(x, 8, {f32({8}).value(), f32({8}).value(), f32({}).value()}, Var()),
              HasSubstr("num_batches_tracked is () f32"));
  EXPECT_THAT(norm(x, 8, Buffers(device, 8), f32({2, 8, 3, 3, 1})), HasSubstr("residual is (2, 8, 3, 3, 1)"));
  EXPECT_THAT(norm({1, 1, 1, 1, 8}, 8, Buffers(device, 8), Var()), HasSubstr("one pixel per channel"));

  EXPECT_THAT(ErrorOf([&] { MaxPool2d(f32({2, 8, 3, 3}), 3, 2, 1); }), HasSubstr("x is (2, 8, 3, 3)"));
  EXPECT_THAT(ErrorOf([&] { MaxPool2d(f32(x), 2, 2, 2); }), HasSubstr("padding 2"));
  EXPECT_THAT(ErrorOf([&] { MaxPool2d(f32({1, 1, 40, 40, 1}), 16, 1, 0); }), HasSubstr("size is 16"));
  EXPECT_THAT(ErrorOf([&] { MaxPool2d(f32(x), 5, 1, 0); }), HasSubstr("does not fit"));
  EXPECT_THAT(ErrorOf([&] { GlobalAveragePool(f32({2, 8})); }), HasSubstr("average_pool: x is (2, 8)"));
  EXPECT_THAT(ErrorOf([&] { AddBias(f32({2, 8}), f32({7})); }), HasSubstr("bias is (7)"));
  EXPECT_THAT(ErrorOf([&] {
                MeanSquaredError(f32({2, 8}), f32({2, 7}).value());
              }),
              AllOf(HasSubstr("x is (2, 8)"), HasSubstr("target is (2, 7)")));
  EXPECT_THAT(ErrorOf([&] { MeanSquaredError(f32({0, 8}), f32({0, 8}).value()); }), HasSubstr("not empty"));
}

// Beside activations in bf16 a convolution's weight is bf16, and whatever is no activation is f32.
TEST(VisionFunctionsTest, RefusesTheWrongTypesBesideBF16) {
  using testing::HasSubstr;
  const DevicePtr device = CpuDevice();
  const auto f32 = [&](Shape shape) { return Var(Tensor::Zeros(device, std::move(shape), DType::kF32)); };
  const auto bf16 = [&](Shape shape) { return Var(Tensor::Zeros(device, std::move(shape), DType::kBF16)); };
  const Var x = bf16({2, 8, 3, 3, 1});
  EXPECT_THAT(ErrorOf([&] { Conv2d(x, f32({8, 8, 1, 1}), {}); }), HasSubstr("weight is (8, 8, 1, 1) f32"));
  EXPECT_THAT(ErrorOf([&] {
                Conv2d(f32({2, 8, 3, 3, 1}), bf16({8, 8, 1, 1}), {});
              }),
              HasSubstr("weight is (8, 8, 1, 1) bf16"));
  const auto norm = [&](const Var& weight, const Var& bias, DType buffers, const Var& residual) {
    return ErrorOf([&] { BatchNorm2d(x, weight, bias, Buffers(device, 8, buffers), {}, residual); });
  };
  EXPECT_EQ(norm(f32({8}), f32({8}), DType::kF32, x), "no error");
  EXPECT_THAT(norm(bf16({8}), f32({8}), DType::kF32, x), HasSubstr("weight is (8) bf16"));
  EXPECT_THAT(norm(f32({8}), bf16({8}), DType::kF32, x), HasSubstr("bias is (8) bf16"));
  EXPECT_THAT(norm(f32({8}), f32({8}), DType::kBF16, x), HasSubstr("running_mean is (8) bf16"));
  EXPECT_THAT(norm(f32({8}), f32({8}), DType::kF32, f32({2, 8, 3, 3, 1})),
              HasSubstr("residual is (2, 8, 3, 3, 1) f32"));
  EXPECT_THAT(ErrorOf([&] { AddBias(bf16({2, 8}), bf16({8})); }), HasSubstr("bias is (8) bf16"));
  EXPECT_THAT(ErrorOf([&] {
                MeanSquaredError(bf16({2, 8}), bf16({2, 8}).value());
              }),
              HasSubstr("target is (2, 8) bf16"));
}

}  // namespace
}  // namespace gradsync::model
