#pragma once

#include <algorithm>
#include <cstdint>
#include <eigen3/Eigen/Core>

#include "model/tensor/dtype.h"
#include "model/tensor/parallel.h"

// Lets CPU kernels compute with arrays as Eigen expressions.
namespace gradsync::model::kernels {

template <class T>
using ArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstArrayMap = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

template <class Out, class Values>
void Store(Out&& out, const Values& values, bool accumulate) {
  if (accumulate) {
    out += values;
  } else {
    out = values;
  }
}

// Converts n numbers from one floating-point type to another; conversion to bf16 rounds to nearest.
template <class From, class To>
void CastSpan(const From* x, int64_t n, To* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(static_cast<Wide<From>>(x[i]));
}

// Returns n consecutive elements that begin at address x, as an Eigen array. n must be at most the
// constructor's max_n. Elements in bf16 are copied to an f32 array, which the next read overwrites.
template <class T>
class Reader {
 public:
  explicit Reader(int64_t /*max_n*/) {}
  ConstArrayMap<T> operator()(const T* x, int64_t n) { return ConstArrayMap<T>(x, n); }
};

template <>
class Reader<BF16> {
 public:
  explicit Reader(int64_t max_n) : wide_(max_n) {}
  ConstArrayMap<float> operator()(const BF16* x, int64_t n) {
    CastSpan(x, n, wide_.data());
    return ConstArrayMap<float>(wide_.data(), n);
  }

 private:
  Eigen::ArrayXf wide_;
};

// Writes n consecutive elements that begin at address y. n must be at most the constructor's max_n. The
// caller's function compute(out) writes the elements to the Eigen array `out`, which is the memory at y
// unless T is BF16. If `accumulate` is true, compute must add to `out`; else compute must set all elements of
// `out`. For BF16, `out` is an f32 array, which the Writer then rounds to bf16 numbers at y.
template <class T>
class Writer {
 public:
  explicit Writer(int64_t /*max_n*/) {}
  template <class Compute>
  void operator()(T* y, int64_t n, bool /*accumulate*/, const Compute& compute) {
    compute(ArrayMap<T>(y, n));
  }
};

template <>
class Writer<BF16> {
 public:
  explicit Writer(int64_t max_n) : wide_(max_n) {}
  template <class Compute>
  void operator()(BF16* y, int64_t n, bool accumulate, const Compute& compute) {
    if (accumulate) CastSpan(y, n, wide_.data());
    compute(ArrayMap<float>(wide_.data(), n));
    CastSpan(wide_.data(), n, y);
  }

 private:
  // The f32 array that operator() passes to compute as `out`.
  Eigen::ArrayXf wide_;
};

// Calls fn(row, read, read_more, write) for each row number from 0 to rows - 1, on the device's threads. fn
// may read two rows at once with the Readers `read` and `read_more`, and write results with the Writer
// `write`. A row has at most n elements, and n must be positive.
template <class T, class Fn>
void ForRows(const Device& device, int64_t rows, int64_t n, const Fn& fn) {
  const auto some = [&](int64_t begin, int64_t end) {
    Reader<T> read(n), read_more(n);
    Writer<T> write(n);
    for (int64_t row = begin; row < end; ++row) fn(row, read, read_more, write);
  };
  ParallelFor(device, rows, some, std::max<int64_t>(1, 8192 / n));  // the least work for a thread
}

}  // namespace gradsync::model::kernels
