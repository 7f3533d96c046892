#pragma once

#include <cstdint>

#include "comm/process_group.h"
#include "model/tensor/tensor.h"

// Functions that write test inputs for collectives and count wrong results. Element i of rank r's input is r
// plus a number from 1 to 8 that depends on i. The sums over at most MaxExactWorldSize ranks are exact in any
// order of addition, so the right results are known.
namespace gradsync::bench {

// The inputs that FillPattern writes are integers. Returns the largest number of ranks for which `dtype` can
// represent every sum of the ranks' inputs exactly. For f64, MaxExactWorldSize returns the same number as for
// f32, because CountWrong compares f32 values.
int MaxExactWorldSize(model::DType dtype);

// Fills a CPU tensor with the test input of rank `rank`. Throws InvalidInput unless the dtype is f32, f64 or
// bf16.
void FillPattern(const model::Tensor& tensor, int rank);

// Returns how many elements of a CPU tensor differ from the sum or the mean (`op`) of all ranks' test inputs
// (FillPattern). Element i of the tensor, rounded to f32, is compared with element `first` + i of the inputs'
// sum or mean. If the number of ranks is not a power of two, an element of a mean counts as right if its
// relative error is at most 2^-23 (bf16: 2^-7). Throws InvalidInput unless `op` is sum or mean, and the dtype
// f32, f64 or bf16.
int64_t CountWrong(const model::Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first = 0);

// Returns how many elements of a CPU tensor, rounded to f32, differ from the test input that FillPattern
// writes for rank `rank`. Throws InvalidInput unless the dtype is f32, f64 or bf16.
int64_t CountDifferent(const model::Tensor& tensor, int rank);

}  // namespace gradsync::bench
