#pragma once

#include <cstdint>
#include <span>

#include "bench/records/record.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "ddp/interface/strategy.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {

// Returns the bytes of memory that `tensors` use. Bytes that several tensors share are counted once.
int64_t DistinctBytes(std::span<const model::Tensor> tensors);

// Adds to `facts` the bytes of weights, gradients and state (of the optimizer and the strategy) that this
// rank keeps between two steps. Copies of weights in bf16 are not counted. If the ranks of a host share one
// copy of the weights (Strategy::places_values()), a rank counts an equal part of this copy. Also adds the
// bytes that a rank should keep, and send in a step, by the ZeRO paper's formulas. DescribeMemory leaves
// these theoretical bytes out in bf16, and for strategies without communication or whose Traits::agreement is
// not kExact. DescribeMemory also leaves them out if Strategy::rows_save_bytes() has a value. Call
// DescribeMemory between two training steps.
void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts);

}  // namespace gradsync::bench
