#include "model/tensor/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gradsync::model {
namespace {

std::vector<float> Normal(int64_t numel, uint64_t seed, uint64_t stream, int num_threads = 1) {
  const Tensor tensor = Tensor::Empty(CpuDevice(num_threads), {numel}, DType::kF32);
  FillTruncatedNormal(tensor, 1.0, seed, stream);
  return tensor.ToVector<float>();
}

// The known answers that come with the authors' Random123 library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0}, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// No two purposes have a stream in common, whose index is below 2^56.
TEST(Random, PurposesHaveStreamsOfTheirOwn) {
  constexpr uint64_t kLast = (uint64_t{1} << 56) - 1;
  EXPECT_EQ(StreamOf(Purpose::kWeights, 3), 3);  // as recorded seeds mean
  EXPECT_GT(StreamOf(Purpose::kBatches, 0), StreamOf(Purpose::kWeights, kLast));
  EXPECT_GT(StreamOf(Purpose::kPeak, 0), StreamOf(Purpose::kLowRank, kLast));
  // Words are those that tensors are filled with.
  const Tensor ints = Tensor::Empty(CpuDevice(), {4 * 64}, DType::kI32);
  const uint64_t stream = StreamOf(Purpose::kOrder, 5);
  FillUniformIntegers(ints, INT32_MAX, 9, stream);
  for (size_t counter = 0; counter < 64; ++counter) {
    EXPECT_EQ(ints.ToVector<int32_t>()[64 + counter],
              static_cast<int32_t>(uint64_t{RandomWords(9, stream, counter)[1]} * INT32_MAX >> 32));
  }
}

TEST(TruncatedNormal, HasTheRightDistribution) {
  std::vector<float> x = Normal(1 << 18, 1, 2);
  std::sort(x.begin(), x.end());
  const double n = static_cast<double>(x.size());
  double largest_gap = 0;  // Kolmogorov-Smirnov statistic
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = 0.5 + 0.5 * std::erf(x[i] / std::sqrt(2.0)) / std::erf(3 / std::sqrt(2.0));
    largest_gap = std::max(largest_gap, std::abs(expected - (static_cast<double>(i) + 0.5) / n));
  }
  EXPECT_LT(largest_gap, 1.63 / std::sqrt(n));  // the 1 % point of the statistic
  EXPECT_GT(x.front(), -3.0f);
  EXPECT_LT(x.back(), 3.0f);
  EXPECT_LT(x.front(), -2.98f);
  EXPECT_GT(x.back(), 2.98f);
}

TEST(TruncatedNormal, IsTheSameEverywhere) {
  // Fixed for ever: a change here changes what every recorded seed means.
  const std::vector<float> x = Normal(1000, 42, 7);
  EXPECT_EQ(x[0], -0x1.e5dd6p-3f);
  EXPECT_EQ(x[999], 0x1.860f2cp-1f);
}

TEST(TruncatedNormal, DependsOnSeedStreamAndIndexAlone) {
  const std::vector<float> x = Normal(100'003, 3, 4);
  EXPECT_EQ(x, Normal(100'003, 3, 4, 3)) << "number of threads";
  const std::vector<float> head = Normal(1001, 3, 4);
  EXPECT_TRUE(std::equal(head.begin(), head.end(), x.begin())) << "number of elements";
  EXPECT_NE(head, Normal(1001, 3, 5));
  EXPECT_NE(head, Normal(1001, 5, 4));
}

TEST(TruncatedNormal, SameValuesInBothDTypes) {
  const DevicePtr device = CpuDevice();
  const Tensor narrow = Tensor::Empty(device, {500}, DType::kF32),
               wide = Tensor::Empty(device, {500}, DType::kF64);
  FillTruncatedNormal(narrow, 0.02, 9, 0);
  FillTruncatedNormal(wide, 0.02, 9, 0);
  const std::vector<float> x = narrow.ToVector<float>();
  EXPECT_EQ(std::vector<double>(x.begin(), x.end()), wide.ToVector<double>());
}

TEST(Uniform, CoversTheRangeEvenly) {
  const Tensor narrow = Tensor::Empty(CpuDevice(), {1 << 16}, DType::kF32),
               wide = Tensor::Empty(CpuDevice(3), {1 << 16}, DType::kF64);
  FillUniform(narrow, -2, 3, 1, 2);
  FillUniform(wide, -2, 3, 1, 2);
  std::vector<double> x = wide.ToVector<double>();
  const std::vector<float> rounded = narrow.ToVector<float>();
  EXPECT_EQ(std::vector<double>(rounded.begin(), rounded.end()), x);
  std::sort(x.begin(), x.end());
  const double n = static_cast<double>(x.size());
  double largest_gap = 0;  // Kolmogorov-Smirnov statistic
  for (size_t i = 0; i < x.size(); ++i) {
    largest_gap = std::max(largest_gap, std::abs((x[i] + 2) / 5 - (static_cast<double>(i) + 0.5) / n));
  }
  EXPECT_LT(largest_gap, 1.63 / std::sqrt(n));  // the 1 % point of the statistic
  EXPECT_GE(x.front(), -2);
  EXPECT_LE(x.back(), 3);
}

TEST(UniformIntegers, CoverTheRangeEvenly) {
  const Tensor tensor = Tensor::Empty(CpuDevice(), {50'000}, DType::kI32);
  FillUniformIntegers(tensor, 10, 0, 0);
  std::vector<int> count(10);
  for (const int32_t value : tensor.ToVector<int32_t>()) ++count.at(static_cast<size_t>(value));
  for (const int c : count) EXPECT_NEAR(c, 5000, 5 * std::sqrt(5000.0));
}

TEST(Random, RefusesWhatCannotWork) {
  const Tensor ints = Tensor::Empty(CpuDevice(), {4}, DType::kI32),
               floats = Tensor::Empty(CpuDevice(), {4}, DType::kF32);
  EXPECT_THROW(FillTruncatedNormal(ints, 1, 0, 0), InvalidInput);
  EXPECT_THROW(FillUniform(ints, 0, 1, 0, 0), InvalidInput);
  EXPECT_THROW(FillUniformIntegers(floats, 10, 0, 0), InvalidInput);
  EXPECT_THROW(FillUniformIntegers(ints, 0, 0, 0), InvalidInput);
  EXPECT_THROW(FillUniformIntegers(ints, int64_t{1} << 31, 0, 0), InvalidInput);
}

}  // namespace
}  // namespace gradsync::model
