#include <dnnl.h>
#include <omp.h>

#include <Eigen/Core>
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <type_traits>

#include "model/error.h"
#include "model/kernels/gemm.h"
#include "model/kernels/gemm_bf16.h"
#include "model/kernels/gemm_onednn.h"
#include "model/kernels/onednn.h"
#include "model/kernels/padded_copy.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels {
namespace {

// c = 0 (m, n), the product of matrices with nothing between them. The libraries refuse a stride of 0.
template <class T>
void StoreEmptySum(int64_t m, int64_t n, T* c, int64_t c_stride, bool accumulate) {
  if (accumulate) return;
  for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_stride, n, T{});
}

// oneDNN's sgemm, which has nothing to prepare and keep per shape.
void Multiply(int num_threads, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c,
              int64_t c_stride, bool accumulate) {
  // OpenMP's setting belongs to the calling thread, so ranks in one process do not disturb each other.
  omp_set_num_threads(num_threads);
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data, a.stride, b.data,
                 b.stride, accumulate ? 1.0f : 0.0f, c, c_stride);
  if (status != dnnl_success) {
    throw std::runtime_error(Join("dnnl_sgemm of m=", m, " n=", n, " k=", k, ": status ", status));
  }
}

// With some hundred rows m, oneDNN's AVX2 code reads b where it lies, down its columns. When b's rows are a
// multiple of 4 KiB apart, the product takes twice as long (44 instead of 90 GFLOP/s, 256 x 3072 x 768, Zen
// 3), and for most other strides up to 10 % longer. So b is copied, some rows at a time.
void MultiplyCopyingB(Device& device, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b,
                      float* c, int64_t c_stride, bool accumulate) {
  constexpr int64_t kPanelRows = 256;
  for (int64_t row = 0; row < k; row += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, k - row);
    const PaddedCopy<float> panel(device, rows, n, {b.data + row * b.stride, b.stride});
    Multiply(device.num_threads(), m, n, rows, {a.data + row, a.stride}, panel.operand(), c, c_stride,
             accumulate || row > 0);
  }
}

// A transposed b is read along its rows, which are best taken as many at a time as stay in the caches (up to
// 5 %).
void MultiplyPanelsOfB(Device& device, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b,
                       float* c, int64_t c_stride, bool accumulate) {
  const int64_t panel_rows = 768 * device.num_threads();
  for (int64_t row = 0; row < n; row += panel_rows) {
    Multiply(device.num_threads(), m, std::min(panel_rows, n - row), k, a,
             {b.data + row * b.stride, b.stride, true}, c + row, c_stride, accumulate);
  }
}

// A transposed a and b are both read down their columns, and with rows a multiple of 4 KiB apart it takes
// twice as long (45 instead of 91 GFLOP/s, 256 x 1024 x 256).
void MultiplyDownColumns(Device& device, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b,
                         float* c, int64_t c_stride, bool accumulate) {
  constexpr int64_t kPageNumel = 4096 / sizeof(float);
  std::optional<PaddedCopy<float>> a_copy, b_copy;
  if (a.stride % kPageNumel == 0) a = a_copy.emplace(device, m, k, a).operand();
  if (b.stride % kPageNumel == 0) b = b_copy.emplace(device, k, n, b).operand();
  Multiply(device.num_threads(), m, n, k, a, b, c, c_stride, accumulate);
}

// How each kind of product is fastest; docs/machines.md has the figures.
void Multiply(Device& device, int64_t m, int64_t n, int64_t k, Operand<float> a, Operand<float> b, float* c,
              int64_t c_stride, bool accumulate) {
  // Below this a copy costs more than it saves.
  constexpr int64_t kCopyRows = 64, kCopyCols = 256;
  if (UsesInstructions(dnnl::cpu_isa::avx512_core)) {
    // Its AVX-512 code packs what it reads. The primitive multiplies by a transposed b faster than sgemm.
    if (!a.transposed && b.transposed && MatmulByOneDnn(device, m, n, k, a, b, c, c_stride, accumulate))
      return;
    Multiply(device.num_threads(), m, n, k, a, b, c, c_stride, accumulate);
  } else if (!a.transposed && b.transposed) {
    MultiplyPanelsOfB(device, m, n, k, a, b, c, c_stride, accumulate);
  } else if (!a.transposed && m >= kCopyRows && n >= kCopyCols) {
    MultiplyCopyingB(device, m, n, k, a, b, c, c_stride, accumulate);
  } else if (a.transposed && !b.transposed && m >= kCopyRows && n >= kCopyRows) {
    MultiplyDownColumns(device, m, n, k, a, b, c, c_stride, accumulate);
  } else {
    Multiply(device.num_threads(), m, n, k, a, b, c, c_stride, accumulate);
  }
}

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;
using MatrixMap = Eigen::Map<Matrix, Eigen::Unaligned, Stride>;
using ConstMatrixMap = Eigen::Map<const Matrix, Eigen::Unaligned, Stride>;

template <class A, class B>
void StoreProduct(const A& a, const B& b, MatrixMap& c, bool accumulate) {
  if (accumulate) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

// f64 is there to check f32 and gradients against: it must be right, not fast.
void Multiply(int64_t m, int64_t n, int64_t k, Operand<double> a, Operand<double> b, double* c,
              int64_t c_stride, bool accumulate) {
  const auto stored = [](const Operand<double>& x, int64_t rows, int64_t cols) {
    return x.transposed ? ConstMatrixMap(x.data, cols, rows, Stride(x.stride))
                        : ConstMatrixMap(x.data, rows, cols, Stride(x.stride));
  };
  const ConstMatrixMap a_map = stored(a, m, k);
  const ConstMatrixMap b_map = stored(b, k, n);
  MatrixMap c_map(c, m, n, Stride(c_stride));
  if (a.transposed && b.transposed) {
    StoreProduct(a_map.transpose(), b_map.transpose(), c_map, accumulate);
  } else if (a.transposed) {
    StoreProduct(a_map.transpose(), b_map, c_map, accumulate);
  } else if (b.transposed) {
    StoreProduct(a_map, b_map.transpose(), c_map, accumulate);
  } else {
    StoreProduct(a_map, b_map, c_map, accumulate);
  }
}

}  // namespace

template <class T>
void SerialGemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) return StoreEmptySum(m, n, c, c_stride, accumulate);
  if constexpr (std::is_same_v<T, float>) {
    Multiply(1, m, n, k, a, b, c, c_stride, accumulate);
  } else {
    Multiply(m, n, k, a, b, c, c_stride, accumulate);
  }
}

template <class T, class C>
void Gemm<T, C>::OnCpu(Device& device) const {
  if (m == 0 || n == 0) return;
  const bool accumulate = c.accumulate || addend != nullptr;
  if (addend != nullptr) {
    ParallelFor(
        device, m,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) std::copy_n(addend + i * c_stride, n, c.data + i * c_stride);
        },
        16);
  }
  if (k == 0) return StoreEmptySum(m, n, c.data, c_stride, accumulate);
  if constexpr (std::is_same_v<T, BF16>) {
    GemmBF16(device, m, n, k, a, b, c.data, c_stride, accumulate);
  } else if constexpr (std::is_same_v<T, float>) {
    Multiply(device, m, n, k, a, b, c.data, c_stride, accumulate);
  } else {
    constexpr int64_t kRowGrain = 16;
    ParallelFor(
        device, m,
        [&](int64_t begin, int64_t end) {
          Operand<T> rows = a;
          rows.data += a.transposed ? begin : begin * a.stride;
          Multiply(end - begin, n, k, rows, b, c.data + begin * c_stride, c_stride, accumulate);
        },
        kRowGrain);
  }
}
GRADSYNC_INSTANTIATE_GEMM(OnCpu);

template void SerialGemm<float>(int64_t, int64_t, int64_t, Operand<float>, Operand<float>, float*, int64_t,
                                bool);
template void SerialGemm<double>(int64_t, int64_t, int64_t, Operand<double>, Operand<double>, double*,
                                 int64_t, bool);

}  // namespace gradsync::model::kernels
