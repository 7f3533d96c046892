#pragma once

#include <cstdint>

#include "comm/process_group.h"
#include "model/tensor/tensor.h"

// Test inputs for collectives, like nccl-tests' verifiable/: small integers that differ between elements and
// between ranks. Their sums are exact in any order of addition, so each result is known exactly.
namespace gradsync::bench {

// Returns the largest number of ranks for which this dtype holds the sums of all ranks' inputs exactly.
int MaxExactWorldSize(model::DType dtype);

// Fills a CPU tensor with the input of rank `rank`. Throws InvalidInput unless the dtype is f32, f64 or bf16.
void FillPattern(const model::Tensor& tensor, int rank);

// Returns how many elements of a CPU tensor differ from the sum or the mean (`op`) of all ranks' inputs.
// Element i of the tensor is compared with element `first` + i of the inputs' sum or mean. If the number of
// ranks is not a power of two, a mean may differ by one rounding. Throws InvalidInput unless `op` is sum or
// mean, and the dtype f32, f64 or bf16.
int64_t CountWrong(const model::Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first = 0);

// Returns how many elements of a CPU tensor differ from the input of rank `rank`.
int64_t CountDifferent(const model::Tensor& tensor, int rank);

}  // namespace gradsync::bench
