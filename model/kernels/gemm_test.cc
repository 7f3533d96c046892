#include "model/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace gradsync::model::kernels::cpu {
namespace {

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

  int64_t rows, cols, stride;
  std::vector<T> values;
};

template <class T>
void Check(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed, bool accumulate,
           int threads) {
  SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " transposed " << a_transposed
                                  << b_transposed << " accumulate " << accumulate << " threads " << threads);
  Padded<T> a(a_transposed ? k : m, a_transposed ? m : k, 0);
  Padded<T> b(b_transposed ? n : k, b_transposed ? k : n, 1);
  Padded<T> c(m, n, 2), serial(m, n, 2);
  Padded<T> want(m, n, 2);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (!accumulate) {
        want.at(i, j) = 0;
        c.at(i, j) = serial.at(i, j) = std::numeric_limits<T>::quiet_NaN();
      }
      for (int64_t l = 0; l < k; ++l) {
        want.at(i, j) += (a_transposed ? a.at(l, i) : a.at(i, l)) * (b_transposed ? b.at(j, l) : b.at(l, j));
      }
    }
  }
  const Operand<T> a_operand{a.values.data(), a.stride, a_transposed};
  const Operand<T> b_operand{b.values.data(), b.stride, b_transposed};
  Gemm(*CpuDevice(threads), m, n, k, a_operand, b_operand, c.values.data(), c.stride, accumulate);
  SerialGemm(m, n, k, a_operand, b_operand, serial.values.data(), serial.stride, accumulate);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c.stride; ++j) {
      if (j < n) {
        EXPECT_EQ(c.at(i, j), want.at(i, j)) << i << ", " << j;
        EXPECT_EQ(serial.at(i, j), want.at(i, j)) << i << ", " << j;
      } else {
        EXPECT_TRUE(std::isnan(c.at(i, j)) && std::isnan(serial.at(i, j))) << "written beyond row " << i;
      }
    }
  }
}

class GemmTest : public testing::TestWithParam<std::tuple<bool, bool, bool>> {};

TEST_P(GemmTest, EqualsTheDefinition) {
  const auto [a_transposed, b_transposed, accumulate] = GetParam();
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
      {1, 1, 1},      {3, 5, 7},    {1, 9, 4}, {9, 1, 4}, {65, 33, 70},
      {70, 260, 300}, {2, 1600, 3}, {4, 3, 0}, {0, 3, 4}, {3, 0, 4}};
  for (const auto& [m, n, k] : sizes) {
    for (const int threads : {1, 2}) {
      Check<float>(m, n, k, a_transposed, b_transposed, accumulate, threads);
      Check<double>(m, n, k, a_transposed, b_transposed, accumulate, threads);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, GemmTest,
                         testing::Combine(testing::Bool(), testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace gradsync::model::kernels::cpu
