#pragma once

#include <cstdint>
#include <span>

#include "bench/records/record.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "ddp/interface/strategy.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {

// Returns the number of bytes of memory that these tensors use. Memory that several tensors share counts
// once.
int64_t DistinctBytes(std::span<const model::Tensor> tensors);

// Adds facts to a record: the bytes of weights, gradients and state that a rank keeps between steps, computed
// from the tensors, and, for exact strategies, the bytes that the rank should keep and send in theory. Call
// this after a step of the strategy, and before the next step.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
