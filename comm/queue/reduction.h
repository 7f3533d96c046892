#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/process_group.h"
#include "model/tensor/dtype.h"

namespace gradsync::comm {

// Computes results[k][i] = parts[0][i] op parts[1][i] op ..., in this order, for every k and for i < n. For a
// mean (kMean), divides the sum by `num_ranks`, or, if `num_ranks` is 0, by the number of parts. The results
// of kMax and kMin are NaN where a part is NaN. For bf16 elements computes in f32, for a mean of f32 elements
// in f64, and rounds the result once. Reads the memory of each part once and writes the memory of each result
// once. A result may be the same memory as one of the parts.
void Reduce(model::DType dtype, ReduceOp op, std::span<const std::byte* const> parts,
            std::span<std::byte* const> results, int64_t n, int num_ranks = 0);

}  // namespace gradsync::comm
