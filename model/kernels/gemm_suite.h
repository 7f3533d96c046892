#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <tuple>
#include <vector>

#include "model/kernels/gemm.h"
#include "model/tensor/tensor.h"

// Functions that test matrix products (the kernel Gemm) on the CPU and on CUDA.
namespace gradsync::model::kernels {

template <class T>
double ToDouble(T x) {
  return static_cast<double>(static_cast<Wide<T>>(x));
}

template <class T>
T FromDouble(double x) {
  return static_cast<T>(static_cast<Wide<T>>(x));
}

// A row-major matrix of integers from -3 to 3, with three NaN after each row. The NaN detect a kernel that
// reads or writes beyond the end of a row.
template <class T>
struct Padded {
  Padded(int64_t rows_in, int64_t cols_in, int seed) : rows(rows_in), cols(cols_in), stride(cols_in + 3) {
    values.assign(static_cast<size_t>(rows * stride), FromDouble<T>(std::nan("")));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) Set(i, j, static_cast<double>((i * 5 + j * 3 + seed) % 7 - 3));
    }
  }

  double At(int64_t i, int64_t j) const { return ToDouble(values[static_cast<size_t>(i * stride + j)]); }
  void Set(int64_t i, int64_t j, double value) {
    values[static_cast<size_t>(i * stride + j)] = FromDouble<T>(value);
  }
  // Returns a copy of `values` in memory of `device`, at an address that is not a multiple of 16 bytes.
  Tensor On(const DevicePtr& device) const {
    const auto n = static_cast<int64_t>(values.size());
    Tensor copy = Tensor::Empty(device, {n + 1}, kDTypeOf<T>).Slice(1, {n});
    copy.CopyFrom(Tensor::From<T>(device, {n}, std::span<const T>(values)));
    return copy;
  }

  int64_t rows, cols, stride;
  std::vector<T> values;
};

struct GemmCase {
  int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate;
};

// Calls multiply(a, b, c, c_stride) with test matrices of the sizes in `g`, and expects the product a b in c.
// If `adds` is true, expects a b plus the test matrix Padded<C>(m, n, 2) instead. Before the call, c has the
// values of `c_before`, an m x n matrix.
template <class T, class C, class Multiply>
void CheckProduct(const DevicePtr& device, const GemmCase& g, bool adds, const Padded<C>& c_before,
                  const Multiply& multiply) {
  SCOPED_TRACE(testing::Message() << Name(kDTypeOf<T>) << " to " << Name(kDTypeOf<C>) << " " << g.m << "x"
                                  << g.n << "x" << g.k << " transposed " << g.a_transposed << g.b_transposed
                                  << " adds " << adds);
  const Padded<T> a(g.a_transposed ? g.k : g.m, g.a_transposed ? g.m : g.k, 0);
  const Padded<T> b(g.b_transposed ? g.n : g.k, g.b_transposed ? g.k : g.n, 1);
  Padded<C> c = c_before;
  const Tensor a_there = a.On(device), b_there = b.On(device), c_there = c.On(device);
  multiply(Operand<T>{a_there.data<T>(), a.stride, g.a_transposed},
           Operand<T>{b_there.data<T>(), b.stride, g.b_transposed}, c_there.data<C>(), c.stride);
  c.values = c_there.ToVector<C>();
  const Padded<C> addend(g.m, g.n, 2);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < c.stride; ++j) {
      if (j >= g.n) {
        EXPECT_TRUE(std::isnan(c.At(i, j))) << "written beyond row " << i;
        continue;
      }
      double want = adds ? addend.At(i, j) : 0;
      for (int64_t l = 0; l < g.k; ++l) {
        want += (g.a_transposed ? a.At(l, i) : a.At(i, l)) * (g.b_transposed ? b.At(j, l) : b.At(l, j));
      }
      EXPECT_EQ(c.At(i, j), ToDouble(FromDouble<C>(want))) << i << ", " << j;
    }
  }
}

template <class C>
Padded<C> NaNs(int64_t rows, int64_t cols) {
  Padded<C> matrix(rows, cols, 2);
  matrix.values.assign(matrix.values.size(), FromDouble<C>(std::nan("")));
  return matrix;
}

template <class T, class C, class Multiply>
void CheckGemm(const DevicePtr& device, const GemmCase& g, const Multiply& multiply) {
  const Padded<C> before = g.accumulate ? Padded<C>(g.m, g.n, 2) : NaNs<C>(g.m, g.n);
  CheckProduct<T, C>(device, g, g.accumulate, before, multiply);
}

template <class T, class C>
void CheckGemm(const DevicePtr& device, const GemmCase& g) {
  CheckGemm<T, C>(device, g, [&](Operand<T> a, Operand<T> b, C* c, int64_t c_stride) {
    const Destination<C*> to{.data = c, .accumulate = g.accumulate};
    Run("gemm", *device,
        Gemm<T, C>{.m = g.m, .n = g.n, .k = g.k, .a = a, .b = b, .c = to, .c_stride = c_stride});
  });
}

template <class T, class C>
void CheckGemmWithAddend(const DevicePtr& device, const GemmCase& g) {
  const Tensor addend = Padded<C>(g.m, g.n, 2).On(device);
  CheckProduct<T, C>(device, g, /*adds=*/true, NaNs<C>(g.m, g.n),
                     [&](Operand<T> a, Operand<T> b, C* c, int64_t c_stride) {
                       Run("gemm", *device,
                           Gemm<T, C>{.m = g.m,
                                      .n = g.n,
                                      .k = g.k,
                                      .a = a,
                                      .b = b,
                                      .c = {.data = c},
                                      .c_stride = c_stride,
                                      .addend = addend.data<C>()});
                     });
}

// Calls check(g) for 13 sizes (m, n, k), with a and b transposed or not, and with g.accumulate true and
// false.
template <class Check>
void ForGemms(const Check& check) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
      {1, 1, 1},    {3, 5, 7},     {1, 9, 4},     {9, 1, 4}, {4, 9, 1}, {65, 33, 70}, {70, 260, 300},
      {2, 1600, 3}, {1021, 70, 5}, {70, 1021, 5}, {4, 3, 0}, {0, 3, 4}, {3, 0, 4}};
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        for (const auto& [m, n, k] : sizes) {
          check(GemmCase{m, n, k, a_transposed, b_transposed, accumulate});
        }
      }
    }
  }
}

}  // namespace gradsync::model::kernels
