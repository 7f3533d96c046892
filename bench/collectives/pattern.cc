#include "bench/collectives/pattern.h"

#include <bit>
#include <cmath>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using model::BF16;
using model::DType;

// Element i is base(i) + rank, with a base from 1 to 8 that follows no stride.
constexpr int kMaxBase = 8;
int Base(int64_t i) { return 1 + static_cast<int>(static_cast<uint32_t>(i) * 2654435761u >> 29); }

template <class T>
float ToFloat(T value) {
  return static_cast<float>(value);
}

template <class T>
void Fill(T* data, int64_t n, int rank) {
  for (int64_t i = 0; i < n; ++i) data[i] = T(static_cast<float>(Base(i) + rank));
}

// `epsilon`: the dtype's distance from 1 to the next number.
template <class T>
int64_t Count(const T* data, int64_t n, comm::ReduceOp op, int world_size, int64_t first, float epsilon) {
  const bool is_mean = op == comm::ReduceOp::kMean;
  const bool is_exact = !is_mean || std::has_single_bit(static_cast<unsigned>(world_size));
  const float tolerance = is_exact ? 0 : epsilon;
  const float of_ranks = static_cast<float>(world_size - 1) / 2;  // the mean of 0, 1, ... world_size - 1
  const float factor = is_mean ? 1 : static_cast<float>(world_size);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float expected = factor * (static_cast<float>(Base(first + i)) + of_ranks);
    // Negated, so that a NaN counts.
    if (!(std::fabs(ToFloat(data[i]) - expected) <= tolerance * expected)) ++wrong;
  }
  return wrong;
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

void FillPattern(const model::Tensor& tensor, int rank) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return Fill(tensor.data<float>(), tensor.numel(), rank);
    case DType::kF64:
      return Fill(tensor.data<double>(), tensor.numel(), rank);
    case DType::kBF16:
      return Fill(tensor.data<BF16>(), tensor.numel(), rank);
    default:
      throw InvalidInput(Join("pattern: dtype is ", Name(tensor.dtype()), ", expected f32, f64 or bf16"));
  }
}

int64_t CountWrong(const model::Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first) {
  Require(op == comm::ReduceOp::kSum || op == comm::ReduceOp::kMean, "pattern: operation is ", comm::Name(op),
          ", expected sum or mean");
  const int64_t n = tensor.numel();
  switch (tensor.dtype()) {
    case DType::kF32:
      return Count(tensor.data<float>(), n, op, world_size, first, std::ldexp(1.0f, -23));
    case DType::kF64:
      return Count(tensor.data<double>(), n, op, world_size, first, std::ldexp(1.0f, -23));
    case DType::kBF16:
      return Count(tensor.data<BF16>(), n, op, world_size, first, std::ldexp(1.0f, -7));
    default:
      throw InvalidInput(Join("pattern: dtype is ", Name(tensor.dtype()), ", expected f32, f64 or bf16"));
  }
}

int64_t CountDifferent(const model::Tensor& tensor, int rank) {
  const model::Tensor input = model::Tensor::Empty(tensor.device(), tensor.shape(), tensor.dtype());
  FillPattern(input, rank);
  const auto count = [&]<class T>(const T* data) {
    int64_t different = 0;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      if (!(ToFloat(data[i]) == ToFloat(input.data<T>()[i]))) ++different;
    }
    return different;
  };
  if (tensor.dtype() == DType::kF64) return count(tensor.data<double>());
  return tensor.dtype() == DType::kBF16 ? count(tensor.data<BF16>()) : count(tensor.data<float>());
}

}  // namespace gradsync::bench
