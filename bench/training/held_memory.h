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
// If ranks keep the weights in memory that they share, each rank counts an equal share of it. Also adds two
// expected numbers from the ZeRO paper: the bytes that a rank keeps, and the bytes that it sends in a step.
// These two are not added for a strategy that does not communicate, does not average exactly, or sends only
// the touched rows of embeddings, and not in training with bf16. Call this between two training steps.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
