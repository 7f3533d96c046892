#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <eigen3/Eigen/Core>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "model/base/error.h"
#include "model/kernels/gemm.h"
#include "model/kernels/gemm_onednn.h"
#include "model/kernels/onednn.h"
#include "model/tensor/eigen.h"
#include "model/tensor/parallel.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

using GemmF32 = Gemm<float, float>;

// The smallest number of rows for which waking a thread saves time.
constexpr int64_t kRowGrain = 16;

// An operand of `rows` rows of `cols` elements, as f32, with the row stride of PaddedStride, which is best
// for caches.
template <class T>
class PaddedCopy {
 public:
  PaddedCopy(Device& device, int64_t rows, int64_t cols, Operand<T> x)
      : stride_(PaddedStride<float>(x.transposed ? rows : cols)),
        scratch_(device, (x.transposed ? cols : rows) * stride_),
        transposed_(x.transposed) {
    if (transposed_) std::swap(rows, cols);  // the shape in memory
    ParallelForEach(device, rows, kRowGrain,
                    [&](int64_t i) { CastSpan(x.data + i * x.stride, cols, scratch_.data() + i * stride_); });
  }

  Operand<float> operand() const { return {scratch_.data(), stride_, transposed_}; }

 private:
  const int64_t stride_;
  const Scratch<float> scratch_;
  const bool transposed_;
};

// Sets c (m, n) to 0, for products with k = 0. Libraries reject a stride of 0.
template <class T, class C>
void StoreEmptySum(const Gemm<T, C>& g) {
  if (g.c.accumulate) return;
  for (int64_t i = 0; i < g.m; ++i) std::fill_n(g.c.data + i * g.c_stride, g.n, C{});
}

// Calls oneDNN's sgemm, which needs no preparation per shape.
void Sgemm(int num_threads, const GemmF32& g) {
  // OpenMP's setting belongs to the calling thread, so ranks in one process do not disturb each other.
  omp_set_num_threads(num_threads);
  const dnnl_status_t status =
      dnnl_sgemm(g.a.transposed ? 'T' : 'N', g.b.transposed ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a.data,
                 g.a.stride, g.b.data, g.b.stride, g.c.accumulate ? 1.0f : 0.0f, g.c.data, g.c_stride);
  if (status != dnnl_success)
    throw std::runtime_error(Join("dnnl_sgemm of m=", g.m, " n=", g.n, " k=", g.k, ": status ", status));
}

// Copies b, some rows at a time. With some hundred rows m, oneDNN's AVX2 code reads b in place, down its
// columns. If the stride of b's rows is a multiple of 4 KiB, the product takes twice as long (44 instead of
// 90 GFLOP/s, 256 x 3072 x 768, Zen 3), and for most other strides up to 10 % longer.
void MultiplyCopyingB(Device& device, const GemmF32& g) {
  constexpr int64_t kPanelRows = 256;
  for (int64_t row = 0; row < g.k; row += kPanelRows) {
    GemmF32 part = g;
    part.k = std::min(kPanelRows, g.k - row);
    const PaddedCopy<float> panel(device, part.k, g.n, {g.b.data + row * g.b.stride, g.b.stride});
    part.a.data += row;
    part.b = panel.operand();
    part.c.accumulate |= row > 0;
    Sgemm(device.num_threads(), part);
  }
}

// A transposed b is read along its rows. It is fastest (by up to 5 %) to use as many rows at a time as fit
// into the caches.
void MultiplyPanelsOfB(Device& device, const GemmF32& g) {
  const int64_t panel_rows = 768 * device.num_threads();
  for (int64_t row = 0; row < g.n; row += panel_rows) {
    GemmF32 part = g;
    part.n = std::min(panel_rows, g.n - row);
    part.b.data += row * g.b.stride;
    part.c.data += row;
    Sgemm(device.num_threads(), part);
  }
}

// A transposed a and b are both read down their columns. If the stride of rows is a multiple of 4 KiB, the
// product takes twice as long (45 instead of 91 GFLOP/s, 256 x 1024 x 256).
void MultiplyDownColumns(Device& device, GemmF32 g) {
  constexpr int64_t kPageNumel = 4096 / sizeof(float);
  std::optional<PaddedCopy<float>> a_copy, b_copy;
  if (g.a.stride % kPageNumel == 0) g.a = a_copy.emplace(device, g.m, g.k, g.a).operand();
  if (g.b.stride % kPageNumel == 0) g.b = b_copy.emplace(device, g.k, g.n, g.b).operand();
  Sgemm(device.num_threads(), g);
}

// Selects the fastest method for each kind of product, as measured on one thread.
void Multiply(Device& device, const GemmF32& g) {
  // Below this a copy costs more than it saves.
  constexpr int64_t kCopyRows = 64, kCopyCols = 256;
  if (UsesInstructions(dnnl::cpu_isa::avx512_core)) {
    // oneDNN's AVX-512 code packs its operands. For a transposed b, the primitive is faster than sgemm.
    if (!g.a.transposed && g.b.transposed && MatmulByOneDnn(device, g)) return;
    Sgemm(device.num_threads(), g);
  } else if (!g.a.transposed && g.b.transposed) {
    MultiplyPanelsOfB(device, g);
  } else if (!g.a.transposed && g.m >= kCopyRows && g.n >= kCopyCols) {
    MultiplyCopyingB(device, g);
  } else if (g.a.transposed && !g.b.transposed && g.m >= kCopyRows && g.n >= kCopyRows) {
    MultiplyDownColumns(device, g);
  } else {
    Sgemm(device.num_threads(), g);
  }
}

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;
using MatrixMap = Eigen::Map<Matrix, Eigen::Unaligned, Stride>;
using ConstMatrixMap = Eigen::Map<const Matrix, Eigen::Unaligned, Stride>;

// f64 is the reference for f32 and gradients, so it must be correct, not fast.
void Multiply(const Gemm<double, double>& g) {
  const auto stored = [](const Operand<double>& x, int64_t rows, int64_t cols) {
    return x.transposed ? ConstMatrixMap(x.data, cols, rows, Stride(x.stride))
                        : ConstMatrixMap(x.data, rows, cols, Stride(x.stride));
  };
  const ConstMatrixMap a = stored(g.a, g.m, g.k), b = stored(g.b, g.k, g.n);
  MatrixMap c(g.c.data, g.m, g.n, Stride(g.c_stride));
  const auto store = [&](const auto& left, const auto& right) {
    if (!g.c.accumulate) c.setZero();
    c.noalias() += left * right;
  };
  if (g.a.transposed && g.b.transposed) {
    store(a.transpose(), b.transpose());
  } else if (g.a.transposed) {
    store(a.transpose(), b);
  } else if (g.b.transposed) {
    store(a, b.transpose());
  } else {
    store(a, b);
  }
}

// Multiplies matrices with positive m, n and k, without an addend. C is float or BF16.
template <class C>
void Multiply(Device& device, const Gemm<BF16, C>& g) {
  if (UsesBF16Instructions() && MatmulByOneDnn(device, g)) return;
  const PaddedCopy<BF16> a(device, g.m, g.k, g.a), b(device, g.k, g.n, g.b);
  const auto multiply = [&](Destination<float*> to, int64_t stride) {
    Gemm<float, float>{
        .m = g.m, .n = g.n, .k = g.k, .a = a.operand(), .b = b.operand(), .c = to, .c_stride = stride}
        .OnCpu(device);
  };
  if constexpr (std::is_same_v<C, float>) {
    multiply(g.c, g.c_stride);
  } else {
    const int64_t stride = PaddedStride<float>(g.n);
    const Scratch<float> sums(device, g.m * stride);
    multiply({.data = sums.data()}, stride);
    ParallelFor(
        device, g.m,
        [&](int64_t begin, int64_t end) {
          Writer<BF16> write(g.n);
          for (int64_t i = begin; i < end; ++i) {
            const ConstArrayMap<float> row(sums.data() + i * stride, g.n);
            write(g.c.data + i * g.c_stride, g.n, g.c.accumulate,
                  [&](ArrayMap<float> out) { Store(out, row, g.c.accumulate); });
          }
        },
        kRowGrain);
  }
}

}  // namespace

template <class T>
void SerialGemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate) {
  const Gemm<T, T> g{.m = m,
                     .n = n,
                     .k = k,
                     .a = a,
                     .b = b,
                     .c = {.data = c, .accumulate = accumulate},
                     .c_stride = c_stride};
  if (m == 0 || n == 0) return;
  if (k == 0) return StoreEmptySum(g);
  if constexpr (std::is_same_v<T, float>) {
    Sgemm(1, g);
  } else {
    Multiply(g);
  }
}
template void SerialGemm(int64_t, int64_t, int64_t, Operand<float>, Operand<float>, float*, int64_t, bool);
template void SerialGemm(int64_t, int64_t, int64_t, Operand<double>, Operand<double>, double*, int64_t, bool);

template <class T, class C>
void Gemm<T, C>::OnCpu(Device& device) const {
  if (m == 0 || n == 0) return;
  Gemm g = *this;
  if (addend != nullptr) {
    g.c.accumulate = true;
    ParallelForEach(device, m, kRowGrain,
                    [&](int64_t i) { std::copy_n(addend + i * c_stride, n, c.data + i * c_stride); });
  }
  if (k == 0) return StoreEmptySum(g);
  if constexpr (!std::is_same_v<T, double>) {
    Multiply(device, g);
  } else {
    ParallelFor(
        device, m,
        [&](int64_t begin, int64_t end) {
          Gemm rows = g;
          rows.m = end - begin;
          rows.a.data += a.transposed ? begin : begin * a.stride;
          rows.c.data += begin * c_stride;
          Multiply(rows);
        },
        kRowGrain);
  }
}
GRADSYNC_INSTANTIATE_GEMM(OnCpu);

}  // namespace gradsync::model::kernels
