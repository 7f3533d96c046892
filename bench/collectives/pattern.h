#ifndef GRADSYNC_BENCH_COLLECTIVES_PATTERN_H_
#define GRADSYNC_BENCH_COLLECTIVES_PATTERN_H_

#include <cstdint>

#include "comm/process_group.h"
#include "model/tensor.h"

// Inputs of collectives whose result is known exactly, after the idea of nccl-tests' verifiable/: small
// integers, different in every element and on every rank, whose sums are exact in any order of addition.
namespace gradsync::bench {

// The largest world whose sums are exact in a floating-point dtype.
int MaxExactWorldSize(model::DType dtype);

// Fills a CPU tensor with rank `rank`'s input. Throws InvalidInput unless the dtype is f32, f64 or bf16.
void FillPattern(const model::Tensor& tensor, int rank);

// How many elements of a CPU tensor differ from the sum or the mean of all ranks' inputs, from element
// `first` of these on. A mean whose divisor is no power of two may be off by one rounding. Throws
// InvalidInput for another dtype or operation.
int64_t CountWrong(const model::Tensor& tensor, comm::ReduceOp op, int world_size, int64_t first = 0);

// How many differ from rank `rank`'s input.
int64_t CountDifferent(const model::Tensor& tensor, int rank);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_PATTERN_H_
