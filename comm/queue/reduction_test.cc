#include "comm/queue/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace gradsync::comm {
namespace {

using model::BF16;
using model::DType;

// Lengths around a block's and a vector instruction's.
const std::vector<int64_t> kNumels = {0, 1, 7, 511, 512, 513, 1500};

// Exact, so that the compiler may add it as it likes; sums of several are not.
float Value(size_t part, int64_t i) {
  const int64_t value = (i * 7919 + static_cast<int64_t>(part) * 104729) % 100'003;
  return static_cast<float>(value) * static_cast<float>(1 << 2 * part);
}

template <class T>
std::vector<std::vector<T>> Parts(size_t count, int64_t n) {
  std::vector<std::vector<T>> parts(count);
  for (size_t part = 0; part < count; ++part) {
    for (int64_t i = 0; i < n; ++i) parts[part].push_back(static_cast<T>(Value(part, i)));
  }
  return parts;
}

template <class T>
std::vector<std::byte*> Pointers(std::vector<std::vector<T>>& parts) {
  std::vector<std::byte*> pointers;
  for (std::vector<T>& part : parts) pointers.push_back(reinterpret_cast<std::byte*>(part.data()));
  return pointers;
}

// More parts than are read side by side.
TEST(ReduceTest, GoesFromTheFirstPartToTheLast) {
  for (size_t count = 1; count <= 10; ++count) {
    for (const int64_t n : kNumels) {
      auto parts = Parts<float>(count, n);
      std::vector<float> sum(static_cast<size_t>(n));
      std::vector<float> largest(sum);
      auto* const sum_bytes = reinterpret_cast<std::byte*>(sum.data());
      auto* const largest_bytes = reinterpret_cast<std::byte*>(largest.data());
      Reduce(DType::kF32, ReduceOp::kSum, Pointers(parts), {&sum_bytes, 1}, n);
      Reduce(DType::kF32, ReduceOp::kMax, Pointers(parts), {&largest_bytes, 1}, n);
      for (int64_t i = 0; i < n; ++i) {
        float expected_sum = Value(0, i);
        float expected_largest = Value(0, i);
        for (size_t part = 1; part < count; ++part) {
          expected_sum += Value(part, i);
          expected_largest = std::max(expected_largest, Value(part, i));
        }
        ASSERT_EQ(sum[static_cast<size_t>(i)], expected_sum) << count << " parts, element " << i;
        ASSERT_EQ(largest[static_cast<size_t>(i)], expected_largest) << count << " parts, element " << i;
      }
    }
  }
}

TEST(ReduceTest, ResultsMayBeTheParts) {
  for (const size_t count : {2, 3, 4, 5, 8, 9}) {
    auto parts = Parts<int32_t>(count, 1500);
    const auto inputs = parts;
    Reduce(DType::kI32, ReduceOp::kSum, Pointers(parts), Pointers(parts), 1500);
    for (size_t i = 0; i < 1500; ++i) {
      uint32_t expected = 0;  // integers wrap around
      for (const auto& input : inputs) expected += static_cast<uint32_t>(input[i]);
      for (const auto& part : parts) ASSERT_EQ(static_cast<uint32_t>(part[i]), expected) << i;
    }
  }
}

TEST(ReduceTest, BF16IsRoundedOnce) {
  // The neighbours of 256 in bf16 are 255 and 258.
  std::vector<std::vector<BF16>> parts = {{BF16(256)}, {BF16(1)}, {BF16(1)}, {BF16(1)}, {BF16(1)}, {BF16(0)}};
  BF16 result;
  auto* const bytes = reinterpret_cast<std::byte*>(&result);
  Reduce(DType::kBF16, ReduceOp::kSum, Pointers(parts), {&bytes, 1}, 1);
  EXPECT_EQ(static_cast<float>(result), 260);
  Reduce(DType::kBF16, ReduceOp::kMean, Pointers(parts), {&bytes, 1}, 1);
  EXPECT_EQ(result.bits, BF16(260.0f / 6).bits);
}

TEST(ReduceTest, ThereMayBeFewerResultsThanParts) {
  auto parts = Parts<int32_t>(4, 7);
  const auto inputs = parts;
  const std::vector<std::byte*> pointers = Pointers(parts);
  Reduce(DType::kI32, ReduceOp::kSum, pointers, std::span(pointers).first(2), 7);
  for (size_t i = 0; i < 7; ++i) {
    const int32_t expected = inputs[0][i] + inputs[1][i] + inputs[2][i] + inputs[3][i];
    for (size_t k = 0; k < 4; ++k) EXPECT_EQ(parts[k][i], k < 2 ? expected : inputs[k][i]);
  }
}

// As many parts as are read in one pass, and more.
TEST(ReduceTest, AMeanIsDividedByTheNumberOfParts) {
  for (const size_t count : {2, 3, 4, 5, 8, 9}) {
    std::vector<std::vector<float>> parts(count, std::vector<float>(1500, 6));
    Reduce(DType::kF32, ReduceOp::kMean, Pointers(parts), Pointers(parts), 1500);
    for (const auto& part : parts) EXPECT_EQ(part, std::vector<float>(1500, 6)) << count;
    Reduce(DType::kF32, ReduceOp::kMean, Pointers(parts), Pointers(parts), 1500, /*num_ranks=*/16);
    for (const auto& part : parts) EXPECT_EQ(part.back(), 6 * static_cast<float>(count) / 16) << count;
  }
}

// Three times 11184814 is no f32, and a third of the next one is another number.
TEST(ReduceTest, AMeanOfEqualF32IsExact) {
  std::mt19937 generator(1);
  std::vector<float> values(5000, 11184814);
  for (size_t i = 1; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(generator() >> 8), static_cast<int>(i % 200) - 120);
  for (size_t count = 1; count <= 17; ++count) {
    std::vector<std::vector<float>> parts(count, values);
    Reduce(DType::kF32, ReduceOp::kMean, Pointers(parts), Pointers(parts), std::ssize(values));
    for (const auto& part : parts) EXPECT_EQ(part, values) << count;
  }
}

// A float's third is another number.
TEST(ReduceTest, AMeanOfF64IsOfF64) {
  std::vector<std::vector<double>> parts = {{1, 7}, {0, 0}, {0, 0}};
  std::vector<double> result(2);
  auto* const bytes = reinterpret_cast<std::byte*>(result.data());
  Reduce(DType::kF64, ReduceOp::kMean, Pointers(parts), {&bytes, 1}, 2);
  EXPECT_DOUBLE_EQ(result[0], 1.0 / 3);
  EXPECT_DOUBLE_EQ(result[1], 7.0 / 3);
}

// Whichever part it is in, and wherever the others' values lie.
template <class T>
void CheckNansStay(DType dtype) {
  for (size_t count = 1; count <= 9; ++count) {
    for (size_t nan = 0; nan < count; ++nan) {
      std::vector<std::vector<T>> parts(count, std::vector<T>{T(-1.0f), T(2.0f)});
      parts[nan][0] = T(std::numeric_limits<float>::quiet_NaN());
      for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
        std::vector<T> result(2);
        auto* const bytes = reinterpret_cast<std::byte*>(result.data());
        Reduce(dtype, op, Pointers(parts), {&bytes, 1}, 2);
        EXPECT_TRUE(std::isnan(static_cast<float>(result[0]))) << Name(op) << " of " << count << ", " << nan;
        EXPECT_EQ(static_cast<float>(result[1]), 2);
      }
    }
  }
}

TEST(ReduceTest, MaxAndMinKeepNans) {
  CheckNansStay<float>(DType::kF32);
  CheckNansStay<double>(DType::kF64);
  CheckNansStay<BF16>(DType::kBF16);
}

}  // namespace
}  // namespace gradsync::comm
