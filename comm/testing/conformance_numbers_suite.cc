#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "comm/testing/conformance_suite.h"

// In which order backends add, and how often they round.
namespace gradsync::comm {
namespace {

using model::BF16;
using model::DType;
using model::Tensor;

const model::DevicePtr& Here() { return ConformanceTest::here(); }

// Above 256 the numbers of bf16 are 2 apart: rounding after each addition of 1 never leaves 256.
TEST_P(ConformanceTest, BF16SumsAreRoundedOnce) {
  if (!ReducesInRankOrder()) GTEST_SKIP() << "libraries' own algorithms round more often";
  OnAllRanks([](ProcessGroup& group) {
    const int size = group.size();
    for (int large = 0; large < size; ++large) {
      const auto value_of = [&](int rank) {
        return rank == large ? 256.0f : (rank - large + size) % size <= 2 ? 1.0f : 0.0f;
      };
      float sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += value_of(rank);
      for (const int64_t numel : {int64_t{1}, int64_t{3}, int64_t{200'001}}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
          const std::vector<BF16> values(static_cast<size_t>(size * numel), BF16(value_of(group.rank())));
          const Tensor input = Tensor::From<BF16>(Here(), {size * numel}, values);
          const Tensor output = Tensor::Zeros(Here(), {numel}, DType::kBF16);
          group.ReduceScatter(input, output, op).Wait();
          group.AllReduce(input, op).Wait();
          const BF16 expected(op == ReduceOp::kMean ? sum / static_cast<float>(size) : sum);
          for (const Tensor& tensor : {input, output}) {
            const std::vector<BF16> results = tensor.ToVector<BF16>();
            EXPECT_EQ(std::ranges::count(results, expected.bits, &BF16::bits), std::ssize(results))
                << Name(op) << " of " << numel << " where rank " << large << " has 256";
          }
        }
      }
    }
  });
}

// Of equal values the mean is that value: exactly, and by libraries' own algorithms where their sum is exact.
TEST_P(ConformanceTest, TheMeanOfEqualsIsTheirValue) {
  if (GetParam().backend == "nccl") GTEST_SKIP() << "NCCL multiplies by the rounded reciprocal";
  OnAllRanks([](ProcessGroup& group) {
    std::mt19937 generator(1);  // the same on all ranks
    std::vector<float> values(100'000);
    for (float& value : values) {
      value = std::ldexp(static_cast<float>(generator() >> 8), -20);
      if (!ReducesInRankOrder()) value = std::floor(value);
    }
    const auto numel = std::ssize(values);
    for (const int64_t length : {int64_t{100}, numel}) {
      const std::vector<float> expected(values.begin(), values.begin() + length);
      const Tensor tensor = Tensor::From<float>(Here(), {length}, expected);
      group.AllReduce(tensor, ReduceOp::kMean).Wait();
      EXPECT_EQ(tensor.ToVector<float>(), expected);
      std::vector<float> repeated;
      for (int rank = 0; rank < group.size(); ++rank)
        repeated.insert(repeated.end(), expected.begin(), expected.end());
      group
          .ReduceScatter(Tensor::From<float>(Here(), {std::ssize(repeated)}, repeated), tensor,
                         ReduceOp::kMean)
          .Wait();
      EXPECT_EQ(tensor.ToVector<float>(), expected);
    }
  });
}

// Random floats of very different sizes: their sum depends on the order of additions.
Tensor RandomTensor(int rank, int64_t numel) {
  std::mt19937 generator(static_cast<uint32_t>(1234 + rank));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(numel));
  for (float& value : values) value = normal(generator) * std::exp(4 * normal(generator));
  return Tensor::From<float>(Here(), {numel}, values);
}

std::vector<float> SumOfRanks(int begin, int end, int64_t numel) {
  std::vector<float> sum = RandomTensor(begin, numel).ToVector<float>();
  for (int rank = begin + 1; rank < end; ++rank) {
    const std::vector<float> values = RandomTensor(rank, numel).ToVector<float>();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

// Hosts' sums first, if there are several. A ring begins each part's sum at another rank.
TEST_P(ConformanceTest, ReducesInRankOrderToTheSameBitsEverywhere) {
  const int ranks_per_host = GetParam().ranks_per_host == 0 ? size() : GetParam().ranks_per_host;
  for (const int64_t numel : {int64_t{1000}, int64_t{700'001}}) {
    std::vector<float> expected = SumOfRanks(0, ranks_per_host, numel);
    for (int rank = ranks_per_host; rank < size(); rank += ranks_per_host) {
      const std::vector<float> of_host = SumOfRanks(rank, rank + ranks_per_host, numel);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += of_host[i];
    }
    OnAllRanks([&](ProcessGroup& group) {
      const Tensor tensor = RandomTensor(group.rank(), numel);
      group.AllReduce(tensor, ReduceOp::kSum).Wait();
      const std::vector<float> values = tensor.ToVector<float>();
      const std::vector<float>* same = &expected;
      std::vector<float> of_rank0;
      if (!ReducesInRankOrder()) {
        group.Broadcast(tensor, 0).Wait();
        of_rank0 = tensor.ToVector<float>();
        same = &of_rank0;
      }
      EXPECT_EQ(std::memcmp(values.data(), same->data(), tensor.nbytes()), 0) << numel;
    });
  }
}

}  // namespace
}  // namespace gradsync::comm
