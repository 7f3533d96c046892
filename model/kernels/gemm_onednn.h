#pragma once

#include "model/kernels/gemm.h"

namespace gradsync::model::kernels {

// Gemm by oneDNN's matmul primitive, which is made once for each shape; m, n, k > 0 and no addend. T is float
// or BF16, C float or T. Returns false, having done nothing, if oneDNN does not implement it.
template <class T, class C>
bool MatmulByOneDnn(Device& device, const Gemm<T, C>& g);

}  // namespace gradsync::model::kernels
