#ifndef GRADSYNC_COMM_QUEUE_REDUCTION_H_
#define GRADSYNC_COMM_QUEUE_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/process_group.h"
#include "model/dtype.h"

// Reductions on the CPU, by dtype. They run on the calling thread.
namespace gradsync::comm {

// y[i] = x[i] op y[i] for n elements. A mean is summed here; its division is Finish's part.
using Combine = void (*)(const void* x, void* y, int64_t n);
Combine CombineFunction(model::DType dtype, ReduceOp op);

// y[i] /= size if op is the mean, which needs a floating-point dtype; else nothing.
void Finish(model::DType dtype, ReduceOp op, int size, void* y, int64_t n);

// results[k][i] = parts[0][i] op parts[1][i] op ..., in that order, for n elements and every k; for a mean
// divided by the number of parts. Computed in the wide dtype and rounded once. Memory is read and written
// once; a result may be one of the parts.
void Reduce(model::DType dtype, ReduceOp op, std::span<const std::byte* const> parts,
            std::span<std::byte* const> results, int64_t n);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_QUEUE_REDUCTION_H_
