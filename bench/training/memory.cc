#include "bench/training/memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "bench/records/host.h"
#include "comm/factory.h"
#include "model/base/error.h"
#include "model/base/grid.h"
#include "model/base/units.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

constexpr double kMiB = 1 << 20;
// Memory of code, libraries and communication buffers of one rank; memory of a GPU that a CUDA program uses
// before its first allocation; memory of a Python interpreter with PyTorch.
constexpr double kProgramBytes = 64 * kMiB;
constexpr double kBufferBytes = 32 * kMiB;  // part of kProgramBytes for communication
constexpr double kCudaContextBytes = 512 * kMiB;
constexpr double kPythonBytes = 400 * kMiB;

// Returns the largest number of copies of the optimizer's state. For a matrix Muon keeps one copy, and needs
// another one for its products.
double StateCopies(const TrainingPlan& plan) {
  return plan.optimizers == std::vector{OptimizerKind::kSgd} ? 0 : 2;
}

// Returns whether the variant keeps values only in its own memory.
bool LeavesValues(const TrainingVariant& variant) {
  return variant.traits->shards_values || variant.carries();
}

// Returns whether ranks may share values.
bool MayShareValues(const TrainingVariant& variant) {
  return variant.traits->shards_state && !LeavesValues(variant) &&
         comm::TraitsOf(variant.backend, variant.backend_options).shares_memory;
}

// Returns the number of copies in the process of a rank: values; gradients and state that checks and
// strategies without own gradients or state share; and the memory that strategies keep at one time.
double OwnCopies(const TrainingPlan& plan, double largest_unit, const comm::World& world) {
  bool share_gradients = plan.verify, share_state = plan.verify;
  double all = 0, largest = 0;
  for (const TrainingVariant& variant : plan.variants) {
    const ddp::Traits& traits = *variant.traits;
    share_gradients = share_gradients || !traits.places_gradients;
    share_state = share_state || !traits.owns_state;
    if (variant.is_peer()) continue;
    const int num_parts = variant.num_parts(world);
    const double ranks = traits.shards_state ? num_parts : 1;
    double copies = CopiesOf(traits, variant.strategy_options(), num_parts, largest_unit);
    const std::string_view passes = traits.OptionFor(ddp::Option::Role::kPasses);
    if (std::ranges::max(plan.accumulation_steps) > 1 && !passes.empty() &&
        ddp::ValueOf(traits, passes, variant.strategy_options()) == 0)
      copies += 1;
    const double state = traits.owns_state ? StateCopies(plan) / ranks : 0;
    // Ranks that share memory keep a part of the values in shared memory.
    if (MayShareValues(variant)) copies += 1 / ranks;
    // The memory of values is returned before the state is allocated.
    if (plan.is_alone() && LeavesValues(variant)) {
      copies += std::max(state, 1.0) - 1;
    } else {
      copies += state;
    }
    all += copies;
    largest = std::max(largest, copies);
  }
  return 1 + (share_gradients ? 1 : 0) + (share_state ? StateCopies(plan) : 0) +
         (plan.interleaved() ? all : largest);
}

// Returns the number of copies in the process of a rank's peer. All strategies share values and the
// optimizer's state. DistributedDataParallel has its own gradients and buckets, which may be one memory. The
// other strategies share gradients, and a strategy that copies gradients makes two copies. Compilation has no
// influence.
double PeerCopies(const TrainingPlan& plan) {
  double of_ddp = 0, shared = 0;
  for (const TrainingVariant& variant : plan.variants) {
    if (!variant.is_peer()) continue;
    const ddp::Traits& traits = *variant.traits;
    if (traits.has_buckets) {
      of_ddp += traits.places_gradients ? 1 : 2;
    } else {
      shared = std::max(shared, 1 + 2 * traits.gradient_copies);
    }
  }
  return 1 + StateCopies(plan) + of_ddp + shared;
}

// Returns the number of elements of one rank and of its peer, on the device that computes.
double ElementsOfRank(const TrainingPlan& plan, const TrainingSize& size, const comm::World& world) {
  // Eager execution without fusion keeps about twice as many activations for backward.
  constexpr double kEagerActivations = 2;
  // In bf16 activations are smaller, and values have a copy. Both are counted in elements of gradients.
  double activations = size.activations, copy = 0;
  if (plan.dtype != plan.gradient_type()) {
    const double smaller =
        static_cast<double>(SizeOf(plan.dtype)) / static_cast<double>(SizeOf(plan.gradient_type()));
    activations *= smaller;
    copy = smaller * size.params;
  }
  const double own =
      OwnCopies(plan, size.largest_unit, world) * size.params + activations + copy + size.batch;
  if (!plan.peers.wanted) return own;
  return own + PeerCopies(plan) * size.params + kEagerActivations * activations + copy + size.batch;
}

[[noreturn]] void Refuse(const TrainingPlan& plan, int ranks, double needed_bytes, const char* where,
                         int64_t available_bytes, const char* are) {
  throw TooLittleMemory(Join(
      "--model=", plan.model, ": ", ranks, ranks == 1 ? " rank needs" : " ranks need", " about ",
      ApproximateBytes(needed_bytes), " on ", where, ", ",
      ApproximateBytes(static_cast<double>(available_bytes)), " ", are, "; fewer variants, --order=blocks, ",
      plan.peers.wanted ? "--with_peers=none, " : "", "--verify=false or a smaller --batch_size need less"));
}

int RanksPerGpu(const comm::World& world, int num_gpus) {
  return (world.local_size + num_gpus - 1) / std::max(1, num_gpus);
}

}  // namespace

// Computes the activations that are kept for backward for each position, as listed in model/functions.h, when
// the loss is computed, together with the logits and their gradient.
TrainingSize SizeOf(const model::TransformerConfig& config, int64_t positions) {
  const auto d_ff = static_cast<double>(config.d_ff);
  const double per_layer = 7 * static_cast<double>(config.d_model) + 3 * d_ff;
  const double per_position = static_cast<double>(config.num_layers) * per_layer +
                              2 * static_cast<double>(config.vocab_size) + 4 * d_ff;
  const auto num_positions = static_cast<double>(positions);
  const auto params = static_cast<double>(NumParameters(config));
  const auto d = static_cast<double>(config.d_model);
  const double head = (static_cast<double>(config.vocab_size) + 1) * d, block = d * (4 * d + 3 * d_ff + 2);
  return {.params = params,
          .activations = num_positions * per_position,
          .batch = 2 * num_positions,
          .largest_unit = std::max(head, block) / params};
}

// Computes the activations for each image, as listed in model/vision/vision_functions.h: the input and the
// output of each batch norm, and the memory of the max pooling.
TrainingSize SizeOf(const model::ResNetConfig& config, int64_t batch_size, int64_t image_size) {
  const auto kept = [&](int64_t channels, int64_t reduction) {
    const int64_t side = (image_size + reduction - 1) / reduction;
    return static_cast<double>(channels) * static_cast<double>(side * side);
  };
  double per_image = kept(config.width, 4);
  std::map<std::string, double> units;  // elements of units, by the first part of parameters' names
  for (const model::ConvNormShape& layer : ConvNorms(config)) {
    per_image += 2 * kept(layer.out, layer.reduction);
    units[layer.conv.substr(0, layer.conv.find('.'))] +=
        static_cast<double>(layer.out * (layer.in * layer.size * layer.size + 2));
  }
  const auto images = static_cast<double>(batch_size), params = static_cast<double>(NumParameters(config));
  double largest = params;
  for (const auto& [name, numel] : units) largest -= numel;  // fc
  for (const auto& [name, numel] : units) largest = std::max(largest, numel);
  return {.params = params,
          .activations = images * per_image,
          .batch = images * (kept(3, 1) + static_cast<double>(config.num_classes)),
          .largest_unit = largest / params};
}

TrainingMemory EstimateMemory(const TrainingPlan& plan, const comm::World& world, int num_gpus) {
  const TrainingSize size = plan.Size();
  const bool with_peers = plan.peers.wanted;
  const auto bytes = static_cast<double>(SizeOf(plan.gradient_type()));
  const double programs = kProgramBytes + (with_peers ? kPythonBytes : 0);
  // Rank 0 keeps initial values on the host if they are needed again. For checks, every rank has the
  // reference's gradients and the variant's values on the host.
  const double kept =
      (plan.restarts() ? size.params : 0) + (plan.verify ? 2 * world.local_size * size.params : 0);
  // For checks a rank also has the batches of all ranks, on the device that computes.
  const double batches = plan.verify ? world.size * size.batch : 0;
  const double rank = ElementsOfRank(plan, size, world);
  if (plan.ranks.on_cpu()) {
    return {.host_bytes = (world.local_size * (rank + batches) + kept) * bytes + programs * world.local_size};
  }
  const int ranks_per_gpu = RanksPerGpu(world, num_gpus);
  const double contexts = kCudaContextBytes * (with_peers ? 2 : 1);
  return {.host_bytes = kept * bytes + programs * world.local_size,
          .gpu_bytes = ranks_per_gpu * (rank + batches) * bytes + contexts * ranks_per_gpu};
}

double EstimateRank(const TrainingPlan& plan, const TrainingVariant& variant, const comm::World& world,
                    int64_t program_bytes) {
  // Blocks are rounded up by at most an eighth. Memory that ranks share counts for each rank.
  constexpr double kRounding = 17.0 / 16;
  TrainingPlan alone = plan;
  alone.variants = {variant};
  alone.verify = false;
  const double common =
      MayShareValues(variant) ? alone.Size().params * (1 - 1.0 / variant.num_parts(world)) : 0;
  const double more_program =
      std::max(0.0, static_cast<double>(program_bytes) + kBufferBytes - kProgramBytes);
  return more_program + kRounding * (EstimateMemory(alone, world, 0).host_bytes / world.local_size +
                                     common * static_cast<double>(SizeOf(alone.gradient_type())));
}

std::string DescribeEstimates(const TrainingPlan& plan, const comm::World& world, int64_t program_bytes) {
  const std::vector<std::string> models =
      plan.on_images() ? std::vector{plan.model} : model::TransformerNames();
  const auto limit = static_cast<double>(plan.max_memory.value_or(0));
  Grid grid{.rows = {{""}}, .num_left = 1};
  grid.rows[0].insert(grid.rows[0].end(), models.begin(), models.end());
  for (const TrainingVariant& variant : plan.variants) {
    std::vector<std::string>& row = grid.rows.emplace_back(std::vector{variant.name()});
    for (const std::string& model : models) {
      TrainingPlan of_model = plan;
      of_model.model = model;
      const double bytes = EstimateRank(of_model, variant, world, program_bytes);
      const std::string shown = ApproximateBytes(bytes);
      row.push_back(bytes > limit ? Join("(", shown, ")") : shown);
    }
  }
  return Join("Memory of each of ", world.size, " ranks by estimate, in brackets if more than ",
              ApproximateBytes(limit), ":\n", grid.ToString());
}

void CheckMemory(const MemoryLimits& limits, const TrainingPlan& plan, const comm::World& world) {
  const TrainingMemory needed = EstimateMemory(plan, world, limits.num_gpus);
  if (needed.gpu_bytes > static_cast<double>(limits.gpu_bytes))
    Refuse(plan, RanksPerGpu(world, limits.num_gpus), needed.gpu_bytes, "each GPU", limits.gpu_bytes,
           "are there");
  if (limits.host_bytes && needed.host_bytes > static_cast<double>(*limits.host_bytes))
    Refuse(plan, world.local_size, needed.host_bytes, "this host", *limits.host_bytes, "are available");
}

void CheckMemoryOfThisHost(const TrainingPlan& plan, const comm::World& world) {
  CheckMemory({.host_bytes = AvailableMemoryBytes(),
               .gpu_bytes = static_cast<int64_t>(model::CudaMemoryBytes(0)),
               .num_gpus = model::CudaDeviceCount()},
              plan, world);
}

}  // namespace gradsync::bench
