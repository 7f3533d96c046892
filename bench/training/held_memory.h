#pragma once

#include <cstdint>
#include <span>

#include "bench/records/record.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "ddp/strategy.h"
#include "model/tensor.h"

namespace gradsync::bench {

// Bytes of the memory in which these tensors lie: what several of them share counts once.
int64_t DistinctBytes(std::span<const model::Tensor> tensors);

// Adds what a rank keeps from step to step of weights, gradients and state, read from the tensors themselves,
// and for exact strategies what it should keep and send. After a step of the strategy, before another.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
