#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/process_group.h"
#include "model/tensor/dtype.h"

namespace gradsync::comm {

// Reduces the arrays `parts`, of `n` elements each: computes parts[0][i] op parts[1][i] op ..., in this
// order, for i < n, and writes the result to element i of each of the arrays `results`. For a mean (kMean),
// divides the sum by `num_ranks`, or, if `num_ranks` is 0, by the number of parts. A backend passes
// `num_ranks` if the only part is already the sum over all ranks. If `op` is kMean and `dtype` is an integer
// type, Reduce does nothing: Reduce writes no result, not even the sum, and reports no error. For kMax and
// kMin, an element of a result is NaN if it is computed from a NaN. For bf16 elements Reduce computes in f32,
// and for a mean of f32 elements in f64; it rounds these results to the type of the elements only at the end.
// Reduce reads each part from memory once, and writes each result to memory once. Each result must be the
// same array as one of the parts, or must overlap no part.
void Reduce(model::DType dtype, ReduceOp op, std::span<const std::byte* const> parts,
            std::span<std::byte* const> results, int64_t n, int num_ranks = 0);

}  // namespace gradsync::comm
