#include "bench/collectives/pattern.h"

#include <bit>
#include <cmath>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Tensor;

// Element i of rank r is Base(i) + r, with a base from 1 to 8 that has no regular pattern.
constexpr int kMaxBase = 8;
int Base(int64_t i) { return 1 + static_cast<int>(static_cast<uint32_t>(i) * 2654435761u >> 29); }

// Counts the elements that differ from expected(i) by more than a fraction of it.
template <class Expected>
int64_t Count(const Tensor& tensor, float tolerance, Expected&& expected) {
  return DispatchAnyFloat(tensor.dtype(), "pattern", [&]<class T>() {
    const T* const data = tensor.data<T>();
    int64_t wrong = 0;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const float wanted = expected(i);
      // The comparison is negated, so that a NaN counts.
      if (!(std::fabs(static_cast<float>(data[i]) - wanted) <= tolerance * wanted)) ++wrong;
    }
    return wrong;
  });
}

}  // namespace

int MaxExactWorldSize(DType dtype) {
  // Integers up to 2^(bits of significand + 1) are exact.
  const double largest = dtype == DType::kBF16 ? std::ldexp(1, 8) : std::ldexp(1, 24);
  int world_size = 1;
  const auto sum = [](double n) { return n * kMaxBase + n * (n - 1) / 2; };
  while (sum(world_size + 1) <= largest) ++world_size;
  return world_size;
}

void FillPattern(const Tensor& tensor, int rank) {
  DispatchAnyFloat(tensor.dtype(), "pattern", [&]<class T>() {
    T* const data = tensor.data<T>();
    for (int64_t i = 0; i < tensor.numel(); ++i) data[i] = T(static_cast<float>(Base(i) + rank));
  });
}

int64_t CountWrong(const Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first) {
  Require(op == comm::ReduceOp::kSum || op == comm::ReduceOp::kMean, "pattern: operation is ", comm::Name(op),
          ", expected sum or mean");
  const bool is_mean = op == comm::ReduceOp::kMean;
  const bool is_exact = !is_mean || std::has_single_bit(static_cast<unsigned>(world_size));
  // The distance from 1 to the next number.
  const float epsilon = std::ldexp(1.0f, tensor.dtype() == DType::kBF16 ? -7 : -23);
  const float of_ranks = static_cast<float>(world_size - 1) / 2;  // the mean of 0, 1, ... world_size - 1
  const float factor = is_mean ? 1 : static_cast<float>(world_size);
  return Count(tensor, is_exact ? 0 : epsilon,
               [&](int64_t i) { return factor * (static_cast<float>(Base(first + i)) + of_ranks); });
}

int64_t CountDifferent(const Tensor& tensor, int rank) {
  return Count(tensor, 0, [&](int64_t i) { return static_cast<float>(Base(i) + rank); });
}

}  // namespace gradsync::bench
