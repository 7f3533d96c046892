#include "comm/queue/reduction.h"

#include <algorithm>
#include <array>
#include <type_traits>

namespace gradsync::comm {
namespace {

using model::DType;

// Few enough that they stay in the first cache until they are written.
constexpr int64_t kBlockNumel = 512;

// y = x[0] op x[1] op ... of kParts parts; or, unless they are the first, y op x[0] op ... So many parts are
// read side by side, because streams that take turns are slower than memory.
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

// Few parts, read side by side, and a sum that goes to memory at once: to one result or to as many as parts.
template <size_t kParts, size_t kResults, class T, class Op>
void ReduceFew(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n,
               double factor, Op op) {
  using C = model::Wide<T>;
  std::array<const T*, kParts> x;
  std::array<T*, kResults> y;
  for (size_t k = 0; k < kParts; ++k) x[k] = reinterpret_cast<const T*>(parts[k]);
  for (size_t k = 0; k < kResults; ++k) y[k] = reinterpret_cast<T*>(results[k]);
  const C scale = static_cast<C>(factor);
#pragma GCC ivdep  // a result is one of the parts, or overlaps none
  for (int64_t i = 0; i < n; ++i) {
    C sum = C(x[0][i]);
    for (size_t k = 1; k < kParts; ++k) sum = static_cast<C>(op(sum, C(x[k][i])));
    const T result = T(static_cast<C>(sum * scale));
    for (size_t k = 0; k < kResults; ++k) y[k][i] = result;
  }
}

// Whether it was done.
template <size_t kParts, class T, class Op>
bool ReduceIfFew(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n,
                 double factor, Op op) {
  if (parts.size() != kParts || (results.size() != 1 && results.size() != kParts)) return false;
  results.size() == 1 ? ReduceFew<kParts, 1, T>(parts, results, n, factor, op)
                      : ReduceFew<kParts, kParts, T>(parts, results, n, factor, op);
  return true;
}

template <class T, class Op>
void ReduceBlocks(std::span<const std::byte* const> parts, std::span<std::byte* const> results, int64_t n,
                  double factor, Op op) {
  if (ReduceIfFew<2, T>(parts, results, n, factor, op) || ReduceIfFew<4, T>(parts, results, n, factor, op) ||
      ReduceIfFew<8, T>(parts, results, n, factor, op))
    return;
  using C = model::Wide<T>;
  std::array<C, kBlockNumel> sum;
  for (int64_t begin = 0; begin < n; begin += kBlockNumel) {
    const int64_t length = std::min(kBlockNumel, n - begin);
    C* const y = sum.data();
    size_t count = AccumulateSome<true, T>(parts, begin, length, y, op);
    while (count < parts.size()) {
      count += AccumulateSome<false, T>(parts.subspan(count), begin, length, y, op);
    }
    if (factor != 1) {
      for (int64_t i = 0; i < length; ++i) y[i] = static_cast<C>(y[i] * static_cast<C>(factor));
    }
    for (std::byte* const result : results) {
      T* const target = reinterpret_cast<T*>(result) + begin;
      for (int64_t i = 0; i < length; ++i) target[i] = T(y[i]);
    }
  }
}

// Integers wrap around.
constexpr auto kAdd = []<class T>(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
};

template <class T>
void ReduceAs(ReduceOp op, std::span<const std::byte* const> parts, std::span<std::byte* const> results,
              int64_t n, double num_ranks) {
  switch (op) {
    case ReduceOp::kSum:
      return ReduceBlocks<T>(parts, results, n, 1, kAdd);
    case ReduceOp::kMean:
      return ReduceBlocks<T>(parts, results, n, 1.0 / num_ranks, kAdd);
    // A NaN on either side stays: a NaN is unequal to itself, and no comparison with it holds.
    case ReduceOp::kMax:
      return ReduceBlocks<T>(parts, results, n, 1, [](auto a, auto b) { return a > b || a != a ? a : b; });
    case ReduceOp::kMin:
      return ReduceBlocks<T>(parts, results, n, 1, [](auto a, auto b) { return a < b || a != a ? a : b; });
  }
}

}  // namespace

void Reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> parts,
            std::span<std::byte* const> results, int64_t n, int num_ranks) {
  const double divisor = num_ranks > 0 ? num_ranks : static_cast<double>(parts.size());
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
