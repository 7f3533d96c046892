#pragma once

#include <algorithm>
#include <cstdint>
#include <eigen3/Eigen/Core>

#include "model/tensor/dtype.h"
#include "model/tensor/parallel.h"

// Represents memory as Eigen expressions, which use vector instructions.
namespace gradsync::model::kernels {

template <class T>
using ArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstArrayMap = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

// Computes out = values or out += values.
template <class Out, class Values>
void Store(Out&& out, const Values& values, bool accumulate) {
  if (accumulate) {
    out += values;
  } else {
    out = values;
  }
}

// Converts n numbers to another type; bf16 is rounded to nearest.
template <class From, class To>
void CastSpan(const From* x, int64_t n, To* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(static_cast<Wide<From>>(x[i]));
}

// Reads pieces of an array of T as arrays of the wide type: in place, or for bf16 as copies in f32. A piece
// has at most max_n elements and is valid until the next read.
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

// Writes pieces of an array of T: calls compute(out), which sets out or, if `accumulate`, adds to it. bf16 is
// rounded once.
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
  // The alignment is always equal: elements before the first whole vector are computed one by one, and
  // compilers may round these elements differently.
  Eigen::ArrayXf wide_;
};

// Calls fn(row, read, read_more, write) for rows of n elements, divided among the threads of the device. The
// readers and the writer handle one row at a time.
template <class T, class Fn>
void ForRows(const Device& device, int64_t rows, int64_t n, const Fn& fn) {
  const auto some = [&](int64_t begin, int64_t end) {
    Reader<T> read(n), read_more(n);
    Writer<T> write(n);
    for (int64_t row = begin; row < end; ++row) fn(row, read, read_more, write);
  };
  ParallelFor(device, rows, some, std::max<int64_t>(1, 8192 / n));  // enough work to wake a thread
}

}  // namespace gradsync::model::kernels
