#pragma once

#include "model/kernels/gemm.h"

namespace gradsync::model::kernels {

// Computes Gemm by oneDNN's matmul primitive, which is made once for each shape. m, n and k must be positive,
// and there must be no addend. T is float or BF16, and C is float or T. If oneDNN does not implement the
// product, does nothing and returns false.
template <class T, class C>
bool MatmulByOneDnn(Device& device, const Gemm<T, C>& g);

}  // namespace gradsync::model::kernels
