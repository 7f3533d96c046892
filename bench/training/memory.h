#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/training/plan.h"
#include "comm/rendezvous/world.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {

// Returns the size of a training: of a transformer on a number of positions, and of a ResNet on images with a
// number of pixels on each side.
TrainingSize SizeOf(const model::TransformerConfig& config, int64_t positions);
TrainingSize SizeOf(const model::ResNetConfig& config, int64_t batch_size, int64_t image_size);

struct TrainingMemory {
  double host_bytes = 0;  // bytes of all ranks of a host
  double gpu_bytes = 0;   // bytes of the ranks on one GPU; 0 on the CPU
};

// The available memory.
struct MemoryLimits {
  std::optional<int64_t> host_bytes;  // nullopt: unknown
  int64_t gpu_bytes = 0;              // bytes of one GPU
  int num_gpus = 0;
};

// Estimates the peak memory of all ranks of one host together. Gradients, parameters, optimizer state and
// buffers are counted exactly, for gradsync and for peers. The activations and the program of a peer are
// guesses.
TrainingMemory EstimateMemory(const TrainingPlan& plan, const comm::World& world, int num_gpus);

// Estimates the peak memory of one rank that trains this variant alone, on the CPU, without checks.
// `program_bytes` is the resident memory before training (code and libraries), which is larger in a build
// with CUDA.
double EstimateRank(const TrainingPlan& plan, const TrainingVariant& variant, const comm::World& world,
                    int64_t program_bytes);
// Returns a table of EstimateRank for users, with a line for each variant of the plan, and a column for
// each size of the model. Amounts in parentheses exceed max_memory.
std::string DescribeEstimates(const TrainingPlan& plan, const comm::World& world, int64_t program_bytes);

// Throws TooLittleMemory unless the estimate is within the limits, or, in the second function, within the
// memory of this host: the available host memory, and all memory of its GPUs, because a query of free GPU
// memory would use some of it. The message is one line with the needed memory, the available memory, and what
// would help.
void CheckMemory(const MemoryLimits& limits, const TrainingPlan& plan, const comm::World& world);
void CheckMemoryOfThisHost(const TrainingPlan& plan, const comm::World& world);

}  // namespace gradsync::bench
