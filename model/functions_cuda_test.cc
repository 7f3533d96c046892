// The suites of the CPU's operations on CUDA: against plain implementations in f64 on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "model/function_cases.h"
#include "model/function_suite.h"
#include "model/functions.h"
#include "model/kernels/norm.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::model {
namespace {

// One for all: loading the libraries under it takes a while. Never destroyed, as CUDA may go before statics
// do.
DevicePtr Gpu() {
  static const auto* const device = new DevicePtr(std::make_shared<CudaDevice>(0));
  return *device;
}

INSTANTIATE_TEST_SUITE_P(SmallCuda, FunctionTest, testing::ValuesIn(OnDevice(SmallFunctionCases(), Gpu)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(LargeCuda, FunctionTest, testing::ValuesIn(OnDevice(LargeFunctionCases(), Gpu)),
                         CaseName);

TEST(FunctionsCudaTest, ArraysMayBeginAnywhere) {
  ExpectArraysMayBeginAnywhere(OnDevice(SmallFunctionCases(), Gpu));
}

TEST(FunctionsCudaTest, CrossEntropyIsOfDifferences) { ExpectCrossEntropyIsOfDifferences(Gpu()); }

TEST(FunctionsCudaTest, LargeNumbersDoNotOverflow) { ExpectLargeNumbersDoNotOverflow(Gpu()); }

TEST(FunctionsCudaTest, RopeIsTheSameAfterOtherLengths) {
  ExpectRopeIsTheSameAfterOtherLengths([] { return std::make_shared<CudaDevice>(0); });
}

Tensor Ids(const DevicePtr& device, const std::vector<int32_t>& ids) {
  return Tensor::From<int32_t>(device, {static_cast<int64_t>(ids.size())}, std::span<const int32_t>(ids));
}

// What the next call that waits for the GPU says. Those after it say nothing.
std::string FaultOf(Device& device) {
  std::string fault = "none";
  try {
    device.Synchronize();
  } catch (const InvalidInput& error) {
    fault = error.what();
  }
  device.Synchronize();
  return fault;
}

// Ids are not checked before the kernel runs. Its result for wrong ones cannot be overlooked.
TEST(FunctionsCudaTest, WrongIdsMakeNaNAndAnError) {
  const DevicePtr device = Gpu();
  Parameter table("table", Tensor::Zeros(device, {4, 2}, DType::kF32));
  std::vector<Parameter*> list{&table};
  const Var rows = Embedding(Ids(device, {0, 4, -1, 3}), table);
  EXPECT_THAT(FaultOf(*device),
              testing::MatchesRegex("embedding: ids\\[[12]\\] on cuda:0 is outside of the vocabulary"));
  const std::vector<float> values = rows.value().ToVector<float>();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i / 2 == 1 || i / 2 == 2) << i;
  const std::vector<float> ones(8, 1.0f);
  Backward(Project({rows}, Tensor::From<float>(device, {4, 2}, std::span<const float>(ones))), list);
  EXPECT_EQ(table.grad().ToVector<float>(), (std::vector<float>{1, 1, 0, 0, 0, 0, 1, 1}));

  const Var logits(Tensor::Zeros(device, {2, 3}, DType::kF32));
  for (const std::vector<int32_t>& targets : {std::vector<int32_t>{0, 3}, {0, -1}}) {
    // A loss that is read says so itself.
    EXPECT_THROW(CrossEntropy(logits, Ids(device, targets)).value().ToVector<float>(), InvalidInput);
    const Var loss = CrossEntropy(logits, Ids(device, targets));
    EXPECT_EQ(FaultOf(*device), "cross_entropy: targets[1] on cuda:0 is outside of the vocabulary");
    EXPECT_TRUE(std::isnan(loss.value().ToVector<float>()[0]));
  }
  EXPECT_NEAR(CrossEntropy(logits, Ids(device, {2, 0})).value().ToVector<float>()[0], std::log(3.0f), 1e-6f);
}

// A grid has fewer than 2^31 blocks; of the number here 32 bits would leave 1.
TEST(FunctionsCudaTest, RefusesMoreBlocksThanAGridHas) {
  const DevicePtr device = Gpu();
  const Tensor x = Tensor::Zeros(device, {1}, DType::kF32);
  float* const p = x.data<float>();
  const kernels::RmsNorm<float> norm{
      .x = p, .weight = p, .rows = (int64_t{1} << 35) + 1, .d = 1, .eps = 1e-5, .y = p, .r = p};
  EXPECT_THAT([&] { kernels::Run("rms_norm", *device, norm); },
              testing::ThrowsMessage<CudaError>(
                  "kernel RmsNorm: a grid of 4294967297 blocks, CUDA takes at most 2147483647"));
}

TEST(FunctionsCudaTest, RefusesHeadsThatAreTooLarge) {
  const Var x(Tensor::Zeros(Gpu(), {1, 2, 130}, DType::kF32));
  EXPECT_THROW(CausalAttention(x, x, x, 1), InvalidInput);
}

}  // namespace
}  // namespace gradsync::model
