// The suites of the CPU's operations on CUDA: against plain implementations in f64 on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/function_suite.h"
#include "model/kernels/conv.h"
#include "model/tensor/cuda_device.h"
#include "model/vision/vision_cases.h"
#include "model/vision/vision_functions.h"

namespace gradsync::model {
namespace {

// One for all: loading the libraries under it takes a while. Never destroyed, as CUDA may go before statics
// do.
DevicePtr Gpu() {
  static const auto* const device = new DevicePtr(std::make_shared<CudaDevice>(0));
  return *device;
}

INSTANTIATE_TEST_SUITE_P(Cuda, FunctionTest, testing::ValuesIn(OnDevice(CudaVisionCases(), Gpu)), CaseName);

// cuDNN's convolutions take arrays as gradients lie in buckets: at multiples of 16 bytes.
TEST(VisionFunctionsCudaTest, ArraysMayBeginAnywhere) {
  std::vector<FunctionCase> cases = OnDevice(CudaVisionCases(), Gpu);
  std::erase_if(cases, [](const FunctionCase& c) { return c.name.starts_with("Conv2d"); });
  ExpectArraysMayBeginAnywhere(cases);
}

TEST(VisionFunctionsCudaTest, ChannelsComeInBlocksOfOneOrAll) {
  const DevicePtr device = Gpu();
  EXPECT_EQ(ChannelBlock(*device, DType::kBF16, 64), 64);
  EXPECT_EQ(ChannelBlock(*device, DType::kF64, 64), 1);
  const Var x(Tensor::Zeros(device, {1, 2, 4, 4, 8}, DType::kF32));
  const Var weight(Tensor::Zeros(device, {8, 16, 1, 1}, DType::kF32));
  EXPECT_THROW(Conv2d(x, weight, {.out_block = 8}), InvalidInput);
  const Var all(Tensor::Zeros(device, {1, 1, 4, 4, 16}, DType::kF32));
  EXPECT_NO_THROW(Conv2d(all, weight, {.out_block = 8}));
  EXPECT_THROW(Conv2d(all, weight, {.out_block = 1}), InvalidInput);
  const Var all_f64(Tensor::Zeros(device, {1, 1, 4, 4, 16}, DType::kF64));
  EXPECT_THROW(Conv2d(all_f64, Var(Tensor::Zeros(device, {8, 16, 3, 3}, DType::kF64)), {.out_block = 8}),
               InvalidInput);
}

// 1 + 2^-12 has two digits more than TF32 keeps. In f32 all partial sums of 64 of them are exact.
TEST(VisionFunctionsCudaTest, Tf32IsOffUnlessAllowed) {
  const auto device = std::make_shared<CudaDevice>(0);
  const auto filled = [&](const Shape& shape, double value) {
    const Tensor x = Tensor::Empty(device, shape, DType::kF32);
    FillUniform(x, value, value, 0, 0);
    return Var(x);
  };
  const Var x = filled({1, 64, 4, 4, 1}, 1 + 0x1p-12), weight = filled({8, 64, 1, 1}, 1);
  const auto product = [&] { return Conv2d(x, weight, {}).value().ToVector<float>(); };
  EXPECT_THAT(product(), testing::Each(64 + 0x1p-6f));
  device->set_allow_tf32(true);
  EXPECT_THAT(product(), testing::Each(testing::FloatNear(64, 0x1p-5f)));
}

// cuDNN takes no tensor of 2^32 elements. Nothing here is touched before it says so.
TEST(VisionFunctionsCudaTest, SaysWhichConvolutionCannotBe) {
  const DevicePtr device = Gpu();
  const kernels::ConvShape shape{
      .in = {.batch = 1 << 20, .channels = 64, .height = 8, .width = 8, .block = 1},
      .out_channels = 16,
      .out_block = 1,
      .size = 3,
      .stride = 1,
      .padding = 1};
  const auto run = [&](const auto& kernel) {
    return [&device, kernel] { kernels::Run("conv2d", *device, kernel); };
  };
  const auto says = [&](const char* pass) {
    return testing::ThrowsMessage<CudaError>(testing::StartsWith(
        std::string(pass) + " of 1048576x64x8x8 by 16x64x3x3, stride 1, padding 1, in f32"));
  };
  EXPECT_THAT(run(kernels::Conv2d<float>{shape, nullptr, nullptr, nullptr}), says("conv2d"));
  EXPECT_THAT(run(kernels::Conv2dWeightGrad<float>{shape, nullptr, nullptr, {}}),
              says("the weight gradient of conv2d"));
  EXPECT_THAT(run(kernels::Conv2dInputGrad<float>{shape, nullptr, nullptr, {}}),
              says("the input gradient of conv2d"));
  // Nor are operands copied: bf16 is multiplied on the tensor cores of TF32.
  EXPECT_THAT(run(kernels::Conv2d<BF16>{shape, nullptr, nullptr, nullptr}),
              testing::ThrowsMessage<CudaError>(testing::HasSubstr("padding 1, in tf32")));
}

TEST(VisionFunctionsCudaTest, BatchNormMovesItsBuffers) {
  const DevicePtr device = Gpu();
  const std::vector<float> values{1, 2, 3, 6};
  const Var x(Tensor::From<float>(device, {1, 1, 2, 2, 1}, std::span<const float>(values)));
  const Tensor one = Tensor::Empty(device, {1}, DType::kF32);
  FillUniform(one, 1, 1, 0, 0);
  const BatchNormBuffers buffers{.running_mean = Tensor::Zeros(device, {1}, DType::kF32),
                                 .running_var = Tensor::Zeros(device, {1}, DType::kF32),
                                 .num_batches_tracked = Tensor::Zeros(device, {}, DType::kI64)};
  for (int pass = 0; pass < 2; ++pass) BatchNorm2d(x, Var(one), Var(one), buffers, {.momentum = 0.5});
  EXPECT_EQ(buffers.running_mean.ToVector<float>(), std::vector<float>{2.25f});    // of mean 3
  EXPECT_FLOAT_EQ(buffers.running_var.ToVector<float>()[0], 0.75f * (14.0f / 3));  // of variance 14 / 3
  EXPECT_EQ(buffers.num_batches_tracked.ToVector<int64_t>(), std::vector<int64_t>{2});
  // A NaN is neither clamped by the relu nor lost on the way to the variance.
  const std::vector<float> lost{1, 2, 3, NAN};
  const Var with_nan(Tensor::From<float>(device, {1, 1, 2, 2, 1}, std::span<const float>(lost)));
  const Var y = BatchNorm2d(with_nan, Var(one), Var(one), buffers, {.relu = true});
  EXPECT_THAT(y.value().ToVector<float>(), testing::Each(testing::IsNan()));
  EXPECT_THAT(buffers.running_var.ToVector<float>(), testing::Each(testing::IsNan()));
}

// The variance keeps its digits where it is small beside the mean.
TEST(VisionFunctionsCudaTest, BatchNormOfValuesFarFromZero) {
  const DevicePtr device = Gpu();
  for (const double offset : {0.0, 0x1p26}) {
    std::vector<double> values(2 * 300);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = offset + static_cast<double>(i / 2 % 2);  // 0 and 1
    const Var x(Tensor::From<double>(device, {1, 1, 30, 10, 2}, std::span<const double>(values)));
    const std::vector<double> ones(2, 1.0), zeros(2, 0.0);
    const Var one(Tensor::From<double>(device, {2}, std::span<const double>(ones)));
    const Var zero(Tensor::From<double>(device, {2}, std::span<const double>(zeros)));
    const BatchNormBuffers buffers{.running_mean = Tensor::Zeros(device, {2}, DType::kF64),
                                   .running_var = Tensor::Zeros(device, {2}, DType::kF64),
                                   .num_batches_tracked = Tensor::Zeros(device, {}, DType::kI64)};
    const Var y = BatchNorm2d(x, one, zero, buffers, {.eps = 0});
    EXPECT_THAT(y.value().ToVector<double>(),
                testing::Each(testing::AnyOf(testing::DoubleNear(-1, 1e-9), testing::DoubleNear(1, 1e-9))))
        << offset;
  }
}

}  // namespace
}  // namespace gradsync::model
