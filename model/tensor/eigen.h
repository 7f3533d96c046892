#pragma once

#include <algorithm>
#include <cstdint>
#include <eigen3/Eigen/Core>

#include "model/tensor/dtype.h"
#include "model/tensor/parallel.h"

// Lets CPU kernels use arrays as Eigen expressions, which are computed with vector instructions.
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

// Converts n numbers of type From to the type To. Conversion to bf16 rounds to nearest.
template <class From, class To>
void CastSpan(const From* x, int64_t n, To* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(static_cast<Wide<From>>(x[i]));
}

// A Reader returns n consecutive elements, at most max_n, as an Eigen array. For f32 and f64 this array is
// the memory at x; for bf16 it is a copy in f32, which the next read overwrites.
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

// A Writer writes n <= max_n consecutive elements, which the function compute(out) computes, from address y
// on. If `accumulate` is false, compute must set all n elements of the Eigen array `out`; if true, compute
// must add to them. For f32 and f64 `out` is the memory at y. For bf16 `out` is an f32 buffer; after compute
// has returned, the Writer rounds the buffer into y.
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
  // The f32 buffer to which `compute` writes, before operator() rounds its elements into y. The buffer is an
  // Eigen array, because Eigen always aligns its arrays. In an array that is not aligned, results could
  // depend on the array's address: Eigen computes the elements before the first aligned vector one by one,
  // and compilers may round these elements differently.
  Eigen::ArrayXf wide_;
};

// Calls fn(row, read, read_more, write) once for each `row` from 0 to rows - 1. fn may read rows of inputs by
// the Readers `read` and `read_more`, even two rows at the same time, and write rows of results by the Writer
// `write`. Rows have at most n elements. The device's threads call fn in parallel, each for some of the rows.
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
