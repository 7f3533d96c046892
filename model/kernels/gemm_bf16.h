#ifndef GRADSYNC_MODEL_KERNELS_GEMM_BF16_H_
#define GRADSYNC_MODEL_KERNELS_GEMM_BF16_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"
#include "model/kernels/gemm.h"

namespace gradsync::model::kernels {

// Gemm for operands in bf16, m, n, k > 0. C is float or BF16.
template <class C>
void GemmBF16(Device& device, int64_t m, int64_t n, int64_t k, Operand<BF16> a, Operand<BF16> b, C* c,
              int64_t c_stride, bool accumulate);

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_GEMM_BF16_H_
