#include <type_traits>

#include "model/kernels/eigen.h"
#include "model/kernels/gemm_bf16.h"
#include "model/kernels/gemm_onednn.h"
#include "model/kernels/onednn.h"
#include "model/kernels/padded_copy.h"
#include "model/kernels/parallel.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
template <class C>
void GemmBF16(Device& device, int64_t m, int64_t n, int64_t k, Operand<BF16> a, Operand<BF16> b, C* c,
              int64_t c_stride, bool accumulate) {
  if (UsesBF16Instructions() && MatmulByOneDnn(device, m, n, k, a, b, c, c_stride, accumulate)) return;
  const PaddedCopy<BF16> wide_a(device, m, k, a), wide_b(device, k, n, b);
  const auto multiply = [&](Destination<float*> to, int64_t stride) {
    Gemm<float, float>{
        .m = m, .n = n, .k = k, .a = wide_a.operand(), .b = wide_b.operand(), .c = to, .c_stride = stride}
        .OnCpu(device);
  };
  if constexpr (std::is_same_v<C, float>) {
    multiply({.data = c, .accumulate = accumulate}, c_stride);
  } else {
    const int64_t stride = PaddedStride<float>(n);
    const Scratch<float> sums(device, m * stride);
    multiply({.data = sums.data()}, stride);
    ParallelFor(
        device, m,
        [&](int64_t begin, int64_t end) {
          Writer<BF16> write(n);
          for (int64_t i = begin; i < end; ++i) {
            const ConstArrayMap<float> row(sums.data() + i * stride, n);
            write(c + i * c_stride, n, accumulate, [&](ArrayMap<float> out) { Store(out, row, accumulate); });
          }
        },
        16);
  }
}

template void GemmBF16<float>(Device&, int64_t, int64_t, int64_t, Operand<BF16>, Operand<BF16>, float*,
                              int64_t, bool);
template void GemmBF16<BF16>(Device&, int64_t, int64_t, int64_t, Operand<BF16>, Operand<BF16>, BF16*, int64_t,
                             bool);

}  // namespace gradsync::model::kernels
