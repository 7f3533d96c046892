#pragma once

#include "model/kernels/gemm.h"

namespace gradsync::model::kernels {

// Computes the matrix product g on the CPU, by oneDNN's matmul primitive: g.c = g.a g.b, or g.c += g.a g.b if
// g.c.accumulate is true. g.m, g.n and g.k must be positive, and g.addend must be null. T is float or BF16,
// and C is float or T. If g.m or g.n is 1, or oneDNN does not implement the product, computes nothing and
// returns false; otherwise returns true.
template <class T, class C>
bool MatmulByOneDnn(Device& device, const Gemm<T, C>& g);

}  // namespace gradsync::model::kernels
