#ifndef GRADSYNC_MODEL_KERNELS_GEMM_ONEDNN_H_
#define GRADSYNC_MODEL_KERNELS_GEMM_ONEDNN_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"
#include "model/kernels/gemm.h"

namespace gradsync::model::kernels {

// Gemm by oneDNN's matmul primitive, which it makes ready once for each shape; m, n, k > 0. T is float or
// BF16, C float or T. Returns false, having done nothing, if oneDNN does not implement it.
template <class T, class C>
bool MatmulByOneDnn(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, C* c,
                    int64_t c_stride, bool accumulate);

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_GEMM_ONEDNN_H_
