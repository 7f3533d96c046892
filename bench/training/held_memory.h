#pragma once

#include <cstdint>
#include <span>

#include "bench/records/record.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "ddp/interface/strategy.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {

// Returns how many bytes of memory these tensors use. Bytes that belong to several tensors count once.
int64_t DistinctBytes(std::span<const model::Tensor> tensors);

// Adds to `facts` how many bytes of weights, gradients and optimizer state this rank keeps between two steps.
// Of weights in memory that ranks share, it counts this rank's equal share. Also adds how many bytes a rank
// should keep, and how many it should send in a step, according to the ZeRO paper. It leaves these two out if
// the strategy does not communicate or not average exactly, if it sends only touched rows of embeddings, and
// in bf16. Call this after a step, and before the next one.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
