#pragma once

#include <cstdint>

#include "comm/process_group.h"
#include "model/tensor/tensor.h"

// Makes inputs of collectives with exactly known results, like nccl-tests' verifiable/: small integers that
// differ between elements and between ranks, and whose sums are exact in any order of addition.
namespace gradsync::bench {

// Returns the number of ranks of the largest world whose sums are exact in a floating-point dtype.
int MaxExactWorldSize(model::DType dtype);

// Fills a CPU tensor with rank `rank`'s input. Throws InvalidInput unless the dtype is f32, f64 or bf16.
void FillPattern(const model::Tensor& tensor, int rank);

// Returns the number of elements of a CPU tensor that differ from the sum or the mean of all ranks' inputs,
// starting at element `first` of the inputs. A mean whose divisor is not a power of two may be off by one
// rounding. Throws InvalidInput for another dtype or operation.
int64_t CountWrong(const model::Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first = 0);

// Returns the number of elements that differ from the input of rank `rank`.
int64_t CountDifferent(const model::Tensor& tensor, int rank);

}  // namespace gradsync::bench
