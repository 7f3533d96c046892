#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/training/plan.h"
#include "comm/rendezvous/world.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {

// Both functions SizeOf return how many elements one rank's parameters, activations and batch have. The
// SizeOf with a TransformerConfig is for a transformer with `positions` tokens in the batch. The SizeOf with
// a ResNetConfig is for a ResNet with a batch of `batch_size` images of image_size x image_size pixels.
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

// Estimates the peak memory that training needs: the main memory for all ranks of one host together, and the
// memory of one GPU for the ranks that use it. The estimate counts parameters, gradients, optimizer state,
// activations, batches and buckets, of gradsync's strategies and of PyTorch's. Two amounts are guessed:
// PyTorch's activations, as twice those of gradsync, and the memory of programs and of CUDA, as constants.
TrainingMemory EstimateMemory(const TrainingPlan& plan, const comm::World& world, int num_gpus);

// Estimates the peak memory in bytes of one rank that trains only `variant`, on the CPU, without checks of
// the results. `program_bytes` is the memory of the program (code and libraries) before training.
double EstimateRank(const TrainingPlan& plan, const TrainingVariant& variant, const comm::World& world,
                    int64_t program_bytes);
// Returns a table, for users, of the peak memory of one rank, as EstimateRank estimates it. The table has a
// line for each variant (strategy with its options) of `plan`. The columns of the table are all transformers
// that --model accepts, or ResNet-50 alone if --model names ResNet-50. Estimates larger than the flag
// --max_memory are in parentheses.
std::string DescribeEstimates(const TrainingPlan& plan, const comm::World& world, int64_t program_bytes);

// CheckMemory throws TooLittleMemory if the memory that EstimateMemory returns exceeds a limit in `limits`. A
// limit that is unknown (nullopt) is not checked. CheckMemoryOfThisHost calls CheckMemory; the limits are
// this host's available main memory and the whole memory of its first GPU. The message of TooLittleMemory is
// one line with the needed and the available memory. The message also suggests flags with which training
// needs less memory, such as --order=blocks.
void CheckMemory(const MemoryLimits& limits, const TrainingPlan& plan, const comm::World& world);
void CheckMemoryOfThisHost(const TrainingPlan& plan, const comm::World& world);

}  // namespace gradsync::bench
