#include "comm/queue/reduction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

namespace gradsync::comm {
namespace {

using model::DType;

// Small enough that a block stays in the first-level cache until it is written.
constexpr int64_t kBlockNumel = 512;

// Computes y = x[0] op x[1] op ... of kParts parts, or, unless these parts are the first, y = y op x[0] op
// ... kParts parts are read at one time, because reading one part after the other is slower.
template <bool kAreFirst, size_t kParts, class T, class C, class Op>
void Accumulate(const std::byte* const* parts, int64_t begin, int64_t length, C* y, Op op) {
  std::array<const T*, kParts> x;
  for (size_t k = 0; k < kParts; ++k) x[k] = reinterpret_cast<const T*>(parts[k]) + begin;
  for (int64_t i = 0; i < length; ++i) {
    C sum = kAreFirst ? C(x[0][i]) : static_cast<C>(op(y[i], C(x[0][i])));
    for (size_t k = 1; k < kParts; ++k) sum = static_cast<C>(op(sum, C(x[k][i])));
    y[i] = sum;
  }
}

template <bool kAreFirst, class T, class C, class Op>
size_t AccumulateSome(std::span<const std::byte* const> parts, int64_t begin, int64_t length, C* y, Op op) {
  const size_t count = std::min<size_t>(parts.size(), 4);
  if (count == 1) Accumulate<kAreFirst, 1, T>(parts.data(), begin, length, y, op);
  if (count == 2) Accumulate<kAreFirst, 2, T>(parts.data(), begin, length, y, op);
  if (count == 3) Accumulate<kAreFirst, 3, T>(parts.data(), begin, length, y, op);
  if (count == 4) Accumulate<kAreFirst, 4, T>(parts.data(), begin, length, y, op);
  return count;
}

// Reduces few parts, which are read at one time, and writes the sum once to each result: to one result, or to
// one result per part.
template <size_t kParts, size_t kResults, class T, class C, class Op, class End>
void ReduceFew(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n, Op op,
               End end) {
  std::array<const T*, kParts> x;
  std::array<T*, kResults> y;
  for (size_t k = 0; k < kParts; ++k) x[k] = reinterpret_cast<const T*>(parts[k]);
  for (size_t k = 0; k < kResults; ++k) y[k] = reinterpret_cast<T*>(results[k]);
#pragma GCC ivdep  // a result is one of the parts, or overlaps none
  for (int64_t i = 0; i < n; ++i) {
    C sum = C(x[0][i]);
    for (size_t k = 1; k < kParts; ++k) sum = static_cast<C>(op(sum, C(x[k][i])));
    const T result = T(end(sum));
    for (size_t k = 0; k < kResults; ++k) y[k][i] = result;
  }
}

// Returns whether this number of parts was reduced.
template <size_t kParts, class T, class C, class Op, class End>
bool ReduceIfFew(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n,
                 Op op, End end) {
  if (parts.size() != kParts || (results.size() != 1 && results.size() != kParts)) return false;
  if (results.size() == 1) {
    ReduceFew<kParts, 1, T, C>(parts, results, n, op, end);
  } else {
    ReduceFew<kParts, kParts, T, C>(parts, results, n, op, end);
  }
  return true;
}

// Adds in type C, and calls `end` with each element's sum before rounding it.
template <class T, class C, class Op, class End>
void ReduceBlocks(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n,
                  Op op, End end) {
  if (ReduceIfFew<2, T, C>(parts, results, n, op, end) || ReduceIfFew<4, T, C>(parts, results, n, op, end) ||
      ReduceIfFew<8, T, C>(parts, results, n, op, end))
    return;
  std::array<C, kBlockNumel> sum;
  for (int64_t begin = 0; begin < n; begin += kBlockNumel) {
    const int64_t length = std::min(kBlockNumel, n - begin);
    C* const y = sum.data();
    size_t count = AccumulateSome<true, T>(parts, begin, length, y, op);
    while (count < parts.size())
      count += AccumulateSome<false, T>(parts.subspan(count), begin, length, y, op);
    for (std::byte* const result : results) {
      T* const target = reinterpret_cast<T*>(result) + begin;
      for (int64_t i = 0; i < length; ++i) target[i] = T(end(y[i]));
    }
  }
}

// Adds two numbers. Integers wrap around.
constexpr auto kAdd = []<class T>(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
};

// Divides by the number of parts, so that the mean of equal values is this value: sums of f32 are exact in
// f64, and for a power of two the product equals the quotient.
template <class T>
void ReduceMean(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n,
                int num_ranks) {
  using C = std::conditional_t<std::is_same_v<T, float>, double, model::Wide<T>>;
  const auto divisor = static_cast<C>(num_ranks);
  const auto factor = static_cast<C>(C{1} / divisor);
  if (std::has_single_bit(static_cast<unsigned>(num_ranks)))
    return ReduceBlocks<T, C>(parts, results, n, kAdd, [=](C sum) { return sum * factor; });
  ReduceBlocks<T, C>(parts, results, n, kAdd, [=](C sum) { return sum / divisor; });
}

template <class T>
void ReduceAs(ReduceOp op, std::span<const std::byte* const> parts, std::span<std::byte* const> results,
              int64_t n, int num_ranks) {
  const auto reduce = [&](auto each) {
    ReduceBlocks<T, model::Wide<T>>(parts, results, n, each, [](model::Wide<T> result) { return result; });
  };
  switch (op) {
    case ReduceOp::kSum:
      return reduce(kAdd);
    case ReduceOp::kMean:
      if constexpr (!std::is_integral_v<T>) ReduceMean<T>(parts, results, n, num_ranks);
      return;
    // A NaN in either operand gives NaN: a NaN is unequal to itself, and every comparison with it is false.
    case ReduceOp::kMax:
      return reduce([](auto a, auto b) { return a > b || a != a ? a : b; });
    case ReduceOp::kMin:
      return reduce([](auto a, auto b) { return a < b || a != a ? a : b; });
  }
}

}  // namespace

void Reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> parts,
            std::span<std::byte* const> results, int64_t n, int num_ranks) {
  const int divisor = num_ranks > 0 ? num_ranks : static_cast<int>(parts.size());
  switch (dtype) {
    case DType::kF32:
      return ReduceAs<float>(op, parts, results, n, divisor);
    case DType::kF64:
      return ReduceAs<double>(op, parts, results, n, divisor);
    case DType::kBF16:
      return ReduceAs<model::BF16>(op, parts, results, n, divisor);
    case DType::kI32:
      return ReduceAs<int32_t>(op, parts, results, n, divisor);
    case DType::kI64:
      return ReduceAs<int64_t>(op, parts, results, n, divisor);
    case DType::kU8:
      return ReduceAs<uint8_t>(op, parts, results, n, divisor);
  }
}

}  // namespace gradsync::comm
