#pragma once

#include "model/kernels/gemm.h"

namespace gradsync::model::kernels {

// Computes g.c = g.a g.b, or adds the product to g.c if g.c.accumulate is true, by oneDNN's matmul primitive.
// m, n and k must be positive, and g.addend must be null. T is float or BF16, and C is float or T. Does
// nothing and returns false if m or n is 1, or if oneDNN does not implement the product; otherwise returns
// true.
template <class T, class C>
bool MatmulByOneDnn(Device& device, const Gemm<T, C>& g);

}  // namespace gradsync::model::kernels
