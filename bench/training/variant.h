#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peers/options.h"
#include "bench/records/record.h"
#include "bench/records/variant.h"
#include "comm/rendezvous/world.h"
#include "ddp/factory.h"

namespace gradsync::bench {

using ddp::kDefaultBucketBytes;

// The optimizer.
enum class OptimizerKind { kAdamW, kSgd, kMuon };
// "given" means that the variant has no optimizer of its own.
inline constexpr std::string_view kOptimizerWords[] = {"given", "adamw", "sgd", "muon"};
constexpr std::string_view Name(OptimizerKind kind) { return kOptimizerWords[1 + static_cast<size_t>(kind)]; }

// A valid variant, and its meaning. The variant contains only options that differ from their defaults:
// options of the strategy (its traits), options of the benchmark for every strategy (BenchOptions), and, if
// the strategy has buckets, the capacity of buckets in one of three forms:
//
//   bucket_bytes     in bytes
//   bucket_elements  in elements of gradients
//   published_size   in the unit of the published experiment: bytes for `core`, elements for other strategies
struct TrainingVariant : Variant {
  // Traits of the strategy; for a peer, of the comparable strategy of gradsync.
  const ddp::Traits* traits = nullptr;
  std::string floor = {};  // the strategy relative to which the cost is measured
  // Values of all options except the capacity of buckets.
  std::map<std::string, double, std::less<>> values = {};
  // Capacity of a bucket; 0 if the strategy has no buckets.
  int64_t bucket_bytes = 0;
  // Options that the variant's text names, also with their default values.
  std::set<std::string, std::less<>> named = {};

  // Returns the option clip_norm (Turn); infinite if it is not given.
  double clip_norm() const;
  // Returns the learning rate; 0 if the variant does not set it.
  double learning_rate() const;
  // Returns the variant's optimizer, or nullopt if the variant has none of its own.
  std::optional<OptimizerKind> optimizer() const;
  // Returns the options with which the strategy is made.
  ddp::StrategyOptions strategy_options() const;
  // Returns the number of steps from one synchronisation to the next.
  int64_t period() const { return ddp::PeriodOf(*traits, strategy_options()); }
  // turn_steps returns the number of timed steps of a turn, whose mean is a sample; the next function returns
  // the number of untimed steps before them. In a turn of several steps no barrier separates the steps, so
  // that weights which are still being gathered at the end of a step delay the next forward, as in training.
  int64_t turn_steps() const { return carries() ? 3 : period(); }
  int64_t lead_in_steps() const { return carries() ? 1 : 0; }
  bool carries() const { return ddp::ValueOf(*traits, ddp::Option::Role::kCarry, strategy_options()) != 0; }
  // Returns the number of parts into which the strategy shards data, which is the number of ranks that share
  // the parts.
  int num_parts(const comm::World& world) const {
    const bool within_host = ddp::ValueOf(*traits, ddp::Option::Role::kWithinHost, strategy_options()) != 0;
    return within_host ? std::max(1, world.local_size) : world.size;
  }
  bool is_peer() const { return !framework.empty(); }
  // Returns the name of a peer in PyTorch's process (bench/peers/pytorch_training.py).
  std::string peer() const;
  // Returns whether the variant's replicas diverge by design.
  bool drifts() const { return traits->agreement == ddp::Agreement::kDrifts; }
  // Adds the variant and its traits to a record.
  void Describe(Record& record) const;
};

// Returns the options that every variant has, with any strategy, because the benchmark implements them.
std::span<const ddp::Option> BenchOptions();

// Returns an option's value as text, as in a variant.
std::string PrintValue(const ddp::Option& option, double value);

// Values for variants that omit them.
struct VariantDefaults {
  std::vector<std::string> backends;
  std::vector<int64_t> bucket_bytes;
  size_t element_bytes = 4;  // bytes of an element of a gradient
};

// Makes the variants of `texts`, in this order. A text without a backend, or without a bucket size, gives one
// variant for each default that the strategy accepts. `none` has neither backend nor size. Throws
// InvalidInput, with a line that begins with --`flag`, for an unknown strategy, option or backend, for an
// option or backend that the strategy does not accept, and for a variant that occurs twice.
std::vector<TrainingVariant> MakeVariants(std::string_view flag, std::span<const std::string> texts,
                                          const VariantDefaults& defaults);

// Returns the backend of PyTorch's strategies that are compared with these variants: the backend of the first
// variant that names one, else the default of comm::BackendTraits.
std::string PeerBackend(std::span<const TrainingVariant> variants);
// Returns PyTorch's strategies that are comparable with these variants, each once for each mode of
// PeerOptions. Throws InvalidInput, with a line that begins with --with_peers, for a variant that sets
// clip_norm or learning_rate, because peers do not support these options.
std::vector<TrainingVariant> MakePeers(std::span<const TrainingVariant> variants,
                                       std::span<const PeerMode> modes);

}  // namespace gradsync::bench
