#pragma once

#include <cstdint>
#include <span>

#include "bench/records/record.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "ddp/interface/strategy.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {

// Returns how many bytes of memory `tensors` use; bytes that several of the tensors share are counted once.
int64_t DistinctBytes(std::span<const model::Tensor> tensors);

// Adds to `facts`, which are fields of a benchmark's record, how many bytes of weights, gradients and
// optimizer state this rank keeps between two steps. If ranks keep the weights in shared memory, the bytes of
// these weights are divided equally among the ranks that share the memory. DescribeMemory also adds to
// `facts` two expected numbers, by the formulas of the ZeRO paper: the bytes that a rank keeps between steps,
// and the bytes that it sends in a step. DescribeMemory leaves out the two expected numbers in training with
// bf16, and for strategies whose Traits::agreement is not kExact. It also leaves them out for strategies that
// send only some rows of an embedding's gradient. Call the function between two training steps.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
