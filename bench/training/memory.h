#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/training/plan.h"
#include "comm/rendezvous/world.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {

// Returns how many elements of parameters, activations and batches one rank needs memory for, if a pass
// trains a transformer on `positions` tokens, or a ResNet on `batch_size` images of image_size x image_size
// pixels.
TrainingSize SizeOf(const model::TransformerConfig& config, int64_t positions);
TrainingSize SizeOf(const model::ResNetConfig& config, int64_t batch_size, int64_t image_size);

struct TrainingMemory {
  double host_bytes = 0;  // main memory that all ranks of a host need together
  double gpu_bytes = 0;   // memory that the ranks of one GPU need together; 0 if the CPU computes
};

struct MemoryLimits {
  std::optional<int64_t> host_bytes;  // nullopt: unknown
  int64_t gpu_bytes = 0;              // bytes of one GPU
  int num_gpus = 0;
};

// Estimates the peak memory that all ranks of one host need together, of the host and of one GPU. Parameters,
// gradients, optimizer state, activations, batches and buckets are counted, for gradsync's strategies and for
// PyTorch's. Guesses are PyTorch's activations (twice those of gradsync), and the memory of programs and of
// CUDA (constants).
TrainingMemory EstimateMemory(const TrainingPlan& plan, const comm::World& world, int num_gpus);

// Estimates the peak memory in bytes of one rank that trains only this variant, on the CPU, without checks of
// the results. `program_bytes` is the memory of the program (code and libraries) before training.
double EstimateRank(const TrainingPlan& plan, const TrainingVariant& variant, const comm::World& world,
                    int64_t program_bytes);
// Returns a table of the results of EstimateRank, for users, with a line for each variant. It has a column
// for each transformer that --model accepts, or only one for ResNet-50 if --model names it. Estimates that
// exceed --max_memory are in parentheses.
std::string DescribeEstimates(const TrainingPlan& plan, const comm::World& world, int64_t program_bytes);

// CheckMemory throws TooLittleMemory if the result of EstimateMemory exceeds a known limit in `limits`.
// CheckMemoryOfThisHost calls it with the available main memory and the whole memory of the first GPU as
// limits. The error's message is one line with the needed and the available memory, and what would need less.
void CheckMemory(const MemoryLimits& limits, const TrainingPlan& plan, const comm::World& world);
void CheckMemoryOfThisHost(const TrainingPlan& plan, const comm::World& world);

}  // namespace gradsync::bench
