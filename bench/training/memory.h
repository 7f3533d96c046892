#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/training/plan.h"
#include "comm/rendezvous/world.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {

// What a transformer needs on so many positions, and a ResNet on images of so many pixels on each side.
TrainingSize SizeOf(const model::TransformerConfig& config, int64_t positions);
TrainingSize SizeOf(const model::ResNetConfig& config, int64_t batch_size, int64_t image_size);

struct TrainingMemory {
  double host_bytes = 0;  // of all ranks of a host
  double gpu_bytes = 0;   // of the ranks on one GPU; 0 on the CPU
};

// What there is of it.
struct MemoryLimits {
  std::optional<int64_t> host_bytes;  // nullopt: unknown
  int64_t gpu_bytes = 0;              // of one GPU
  int num_gpus = 0;
};

// About how much memory the ranks of one host will use together, at the moment when they use most. Gradients,
// parameters, optimizer state and buffers are counted exactly, and those of peers likewise; a peer's
// activations and its program are guesses.
TrainingMemory EstimateMemory(const TrainingPlan& plan, const comm::World& world, int num_gpus);

// The same of one rank that trains this variant alone, on the CPU, unchecked. `program_bytes`: resident
// before training, code and libraries, which are more in a build with CUDA.
double EstimateOfRank(const TrainingPlan& plan, const TrainingVariant& variant, const comm::World& world,
                      int64_t program_bytes);
// What the plan's variants take by it, for people: a line for each, a column for each size of their model.
// In brackets what is more than max_memory.
std::string EstimatesFor(const TrainingPlan& plan, const comm::World& world, int64_t program_bytes);

// Throws TooLittleMemory, with one line that says what is needed, what there is, and what would help, unless
// that is within the limits; or within what this host has at the moment: of its GPUs all memory, since asking
// what is free takes some of it.
void CheckMemory(const MemoryLimits& limits, const TrainingPlan& plan, const comm::World& world);
void CheckMemoryOfThisHost(const TrainingPlan& plan, const comm::World& world);

}  // namespace gradsync::bench
