#pragma once

#include <cstdint>

#include "comm/process_group.h"
#include "model/tensor.h"

// Inputs of collectives with exactly known results, after the idea of nccl-tests' verifiable/: small
// integers, different in every element and on every rank, with sums that are exact in any order of addition.
namespace gradsync::bench {

// The largest world whose sums are exact in a floating-point dtype.
int MaxExactWorldSize(model::DType dtype);

// Fills a CPU tensor with rank `rank`'s input. Throws InvalidInput unless the dtype is f32, f64 or bf16.
void FillPattern(const model::Tensor& tensor, int rank);

// Number of elements of a CPU tensor that differ from the sum or the mean of all ranks' inputs, starting at
// element `first` of the inputs. A mean whose divisor is not a power of two may be off by one rounding.
// Throws InvalidInput for another dtype or operation.
int64_t CountWrong(const model::Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first = 0);

// Number of elements that differ from rank `rank`'s input.
int64_t CountDifferent(const model::Tensor& tensor, int rank);

}  // namespace gradsync::bench
