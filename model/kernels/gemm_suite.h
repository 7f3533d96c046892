#ifndef GRADSYNC_MODEL_KERNELS_GEMM_SUITE_H_
#define GRADSYNC_MODEL_KERNELS_GEMM_SUITE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "model/kernels/gemm.h"
#include "model/tensor.h"

// What every Gemm has to pass. For one source of a test.
namespace gradsync::model::kernels {

// A row-major matrix of small integers inside rows that are longer, with NaN between them: products are
// exact, and reading or writing beyond a row shows.
template <class T>
struct Padded {
  Padded(int64_t rows_in, int64_t cols_in, int seed) : rows(rows_in), cols(cols_in), stride(cols_in + 3) {
    values.assign(static_cast<size_t>(rows * stride), std::numeric_limits<T>::quiet_NaN());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) at(i, j) = static_cast<T>((i * 5 + j * 3 + seed) % 7 - 3);
    }
  }

  T& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * stride + j)]; }
  // A copy on a device, aligned no better than to its elements.
  Tensor On(const DevicePtr& device) const {
    const auto n = static_cast<int64_t>(values.size());
    const Tensor copy = Tensor::Empty(device, {n + 1}, kDTypeOf<T>).Slice(1, {n});
    copy.CopyFrom(Tensor::From<T>(device, {n}, std::span<const T>(values)));
    return copy;
  }

  int64_t rows, cols, stride;
  std::vector<T> values;
};

template <class T>
using GemmOf = void(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c,
                    int64_t c_stride, bool accumulate);

template <class T>
void CheckGemm(const DevicePtr& device, GemmOf<T>* gemm, int64_t m, int64_t n, int64_t k, bool a_transposed,
               bool b_transposed, bool accumulate) {
  SCOPED_TRACE(testing::Message() << Name(kDTypeOf<T>) << " " << m << "x" << n << "x" << k << " transposed "
                                  << a_transposed << b_transposed << " accumulate " << accumulate);
  Padded<T> a(a_transposed ? k : m, a_transposed ? m : k, 0);
  Padded<T> b(b_transposed ? n : k, b_transposed ? k : n, 1);
  Padded<T> c(m, n, 2);
  Padded<T> want(m, n, 2);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (!accumulate) {
        want.at(i, j) = 0;
        c.at(i, j) = std::numeric_limits<T>::quiet_NaN();
      }
      for (int64_t l = 0; l < k; ++l) {
        want.at(i, j) += (a_transposed ? a.at(l, i) : a.at(i, l)) * (b_transposed ? b.at(j, l) : b.at(l, j));
      }
    }
  }
  const Tensor a_there = a.On(device), b_there = b.On(device), c_there = c.On(device);
  gemm(*device, m, n, k, {a_there.data<T>(), a.stride, a_transposed},
       {b_there.data<T>(), b.stride, b_transposed}, c_there.data<T>(), c.stride, accumulate);
  c.values = c_there.ToVector<T>();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c.stride; ++j) {
      if (j < n) {
        EXPECT_EQ(c.at(i, j), want.at(i, j)) << i << ", " << j;
      } else {
        EXPECT_TRUE(std::isnan(c.at(i, j))) << "written beyond row " << i;
      }
    }
  }
}

// Calls check(m, n, k, a_transposed, b_transposed, accumulate) for many products.
template <class Check>
void ForGemms(const Check& check) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
      {1, 1, 1},      {3, 5, 7},    {1, 9, 4}, {9, 1, 4}, {65, 33, 70},
      {70, 260, 300}, {2, 1600, 3}, {4, 3, 0}, {0, 3, 4}, {3, 0, 4}};
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        for (const auto& [m, n, k] : sizes) check(m, n, k, a_transposed, b_transposed, accumulate);
      }
    }
  }
}

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_GEMM_SUITE_H_
