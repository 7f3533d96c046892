#pragma once

#include <cstdint>
#include <span>

#include "bench/records/record.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "ddp/interface/strategy.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {

// Returns how many bytes of memory `tensors` use together. Bytes that belong to several tensors count once.
int64_t DistinctBytes(std::span<const model::Tensor> tensors);

// Adds to `facts`, which are fields of a benchmark's record, how many bytes of weights, gradients and
// optimizer state this rank keeps between two steps. If ranks keep the weights in shared memory, the bytes of
// these weights are divided equally among the ranks that share the memory. DescribeMemory also adds to
// `facts` two expected numbers, by the formulas of the ZeRO paper: the bytes that a rank keeps between steps,
// and the bytes that it sends in a step. DescribeMemory does not add the two expected numbers in training
// with bf16, or for a strategy that does not communicate or does not average exactly. It also leaves out the
// two expected numbers for a strategy that sends, of an embedding's gradient, only the rows of tokens that
// occur in the batches. Call the function between two training steps.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
