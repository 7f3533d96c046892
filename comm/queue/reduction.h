#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/process_group.h"
#include "model/tensor/dtype.h"

namespace gradsync::comm {

// Computes results[k][i] = parts[0][i] op parts[1][i] op ..., in this order, for every k and for i < n. A
// mean is divided by `num_ranks`, or, if `num_ranks` is 0, by the number of parts. The results of kMax and
// kMin are NaN where a part is NaN. Computes bf16 in f32 and a mean of f32 in f64, and rounds once. Reads
// each part and writes each result once. A result may be one of the parts.
void Reduce(model::DType dtype, ReduceOp op, std::span<const std::byte* const> parts,
            std::span<std::byte* const> results, int64_t n, int num_ranks = 0);

}  // namespace gradsync::comm
