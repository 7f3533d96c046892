#include "bench/training/held_memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "model/optimizer.h"
#include "model/tensor/dtype.h"

namespace gradsync::bench {
namespace {

using model::NamedTensor;
using model::Parameter;
using model::Tensor;

double Numel(std::span<Parameter* const> params) {
  double numel = 0;
  for (const Parameter* const param : params) numel += static_cast<double>(param->numel());
  return numel;
}

// Adds the memory of "ZeRO", arXiv:1910.02054, table 1, and the sent bytes of its section 7.
void DescribeTheory(Trainer& trainer, const ddp::Strategy& strategy, const TrainingVariant& variant,
                    double state_copies, int num_parts, int num_hosts, int64_t accumulation_steps,
                    FactFields& facts) {
  const ddp::Traits& traits = *variant.traits;
  const double params = Numel(trainer.params()), ranks = num_parts, hosts = num_hosts;
  const auto bytes = params * static_cast<double>(SizeOf(trainer.params().front()->dtype()));
  const auto part = [&](bool is_sharded) { return is_sharded ? 1 / ranks : 1.0; };
  const bool is_common = strategy.places_values();
  facts.Set("theory_bytes",
            Value(bytes * (part(traits.shards_values || is_common) + part(traits.shards_grads) +
                           state_copies * part(traits.shards_state))));
  std::vector<double> units;
  for (const std::vector<Parameter*>& unit : trainer.model().units()) units.push_back(Numel(unit) / params);
  // Data are sent in each pass in which the strategy is called, except gathers that happen once per step.
  const double passes = strategy.needs_every_pass() ? static_cast<double>(accumulation_steps) : 1;
  const double once = 1 - std::reduce(units.begin(), units.end());
  double gathers = is_common ? 0 : 1;
  if (!is_common && traits.gathers != nullptr)
    gathers = once + passes * (traits.gathers(variant.strategy_options(), units) - once);
  // Between hosts each part is all-reduced. Within a host an all-reduce is a reduce-scatter followed by a
  // gather.
  const double between_hosts = 2 * (bytes / ranks) * (hosts - 1) / hosts;
  facts.Set("theory_sent_bytes",
            Value((passes + gathers) * bytes * (ranks - 1) / ranks + passes * between_hosts));
}

}  // namespace

int64_t DistinctBytes(std::span<const Tensor> tensors) {
  struct Place {
    uintptr_t begin, end;
  };
  std::vector<Place> places;
  for (const Tensor& tensor : tensors) {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.raw_data());
    places.push_back({begin, begin + tensor.nbytes()});
  }
  std::ranges::sort(places, {}, &Place::begin);
  uintptr_t bytes = 0, counted_to = 0;
  for (const Place& place : places) {
    bytes += std::max(place.end, counted_to) - std::max(place.begin, counted_to);
    counted_to = std::max(place.end, counted_to);
  }
  return static_cast<int64_t>(bytes);
}

void DescribeMemory(Trainer& trainer, ddp::Strategy& strategy, const TrainingVariant& variant, int world_size,
                    int64_t accumulation_steps, FactFields& facts) {
  const ddp::BucketPlan plan = strategy.plan();
  const int num_hosts = plan.buckets.empty() ? 1 : plan.buckets.front().num_hosts;
  const int num_parts = world_size / num_hosts;
  ddp::Strategy::Parts parts = strategy.parts();
  std::vector<NamedTensor> states = strategy.State();
  if (!variant.traits->owns_state) std::ranges::move(trainer.optimizer().State(), std::back_inserter(states));
  std::vector<Tensor> state;
  for (const auto& [name, tensor] : states) state.push_back(tensor);
  const bool has_values = parts.values.empty(), has_grads = parts.grads.empty();  // true if they are whole
  for (Parameter* const param : trainer.params()) {
    if (has_values) parts.values.push_back(param->value());
    if (has_grads && param->has_grad()) parts.grads.push_back(param->grad());
  }
  facts.Set("weights_bytes", DistinctBytes(parts.values) / (strategy.places_values() ? num_parts : 1));
  facts.Set("gradients_bytes", DistinctBytes(parts.grads));
  facts.Set("state_bytes", DistinctBytes(state));
  const bool is_known = variant.traits->agreement == ddp::Agreement::kExact && variant.traits->communicates &&
                        !strategy.rows_save_bytes() && !trainer.params().front()->has_copy();
  if (!is_known) return;
  double state_numel = 0;
  for (const Parameter* const param : trainer.params())
    state_numel +=
        static_cast<double>(trainer.optimizer().NumStatesOf(*param)) * static_cast<double>(param->numel());
  DescribeTheory(trainer, strategy, variant, state_numel / Numel(trainer.params()), num_parts, num_hosts,
                 accumulation_steps, facts);
}

}  // namespace gradsync::bench
