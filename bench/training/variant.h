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
// The words of the variant option `optimizer`; "given" means the optimizer of the flag --optimizer.
inline constexpr std::string_view kOptimizerWords[] = {"given", "adamw", "sgd", "muon"};
constexpr std::string_view Name(OptimizerKind kind) { return kOptimizerWords[1 + static_cast<size_t>(kind)]; }

// A variant (a strategy with options, over a backend) whose names were checked, and the values of its
// options. The inherited `options` have only values that differ from their defaults. There are options of the
// strategy, options of the benchmark for every strategy (BenchOptions), and, if the strategy has buckets,
// their size in one of three forms:
//
//   bucket_bytes     in bytes
//   bucket_elements  in elements of gradients
//   published_size   in the unit of the published experiment: bytes for `core`, elements for other strategies
struct TrainingVariant : Variant {
  // Traits of the strategy; for a strategy of PyTorch, of the gradsync strategy that resembles it.
  const ddp::Traits* traits = nullptr;
  std::string floor = {};  // the strategy without communication, from whose step time the costs are measured
  // Values of options, except the size of buckets; defaults are left out.
  std::map<std::string, double, std::less<>> values = {};
  int64_t bucket_bytes = 0;  // 0 if the strategy has no buckets
  // The options that the variant's text sets, also those that it sets to their default.
  std::set<std::string, std::less<>> named = {};

  // Return the variant's options of these names, or infinity, 0 and nullopt if it does not set them.
  double clip_norm() const;
  double learning_rate() const;
  std::optional<OptimizerKind> optimizer() const;
  ddp::StrategyOptions strategy_options() const;
  // Returns after how many steps ranks average: 1, unless the strategy averages weights only every few steps.
  int64_t period() const { return ddp::PeriodOf(*traits, strategy_options()); }
  // When it is the variant's turn, it takes lead_in_steps() untimed and then turn_steps() timed steps,
  // without barriers between them, and the mean of the timed ones is one sample. There are several steps if
  // the strategy averages only after several, or if it still gathers weights at the end of a step
  // (carries()), which delays the next forward, as in training.
  int64_t turn_steps() const { return carries() ? 3 : period(); }
  int64_t lead_in_steps() const { return carries() ? 1 : 0; }
  bool carries() const { return ddp::ValueOf(*traits, ddp::Option::Role::kCarry, strategy_options()) != 0; }
  // Returns among how many ranks the strategy shards data: all ranks, or those of one host.
  int num_parts(const comm::World& world) const {
    const bool within_host = ddp::ValueOf(*traits, ddp::Option::Role::kWithinHost, strategy_options()) != 0;
    return within_host ? std::max(1, world.local_size) : world.size;
  }
  bool is_peer() const { return !framework.empty(); }
  // Returns the name of a PyTorch strategy in bench/peers/pytorch_training.py: "ddp", or "ddp:1048576" with a
  // bucket size.
  std::string peer() const;
  // Returns whether the ranks' weights differ by design, at least for some steps.
  bool drifts() const { return traits->agreement == ddp::Agreement::kDrifts; }
  void Describe(Record& record) const;
};

// Returns clip_norm, learning_rate and optimizer: the benchmark implements them for every strategy.
std::span<const ddp::Option> BenchOptions();

// Returns the value of an option as it is written in a variant's text.
std::string PrintValue(const ddp::Option& option, double value);

// What MakeVariants adds to texts that have no backend or no bucket size.
struct VariantDefaults {
  std::vector<std::string> backends;
  std::vector<int64_t> bucket_bytes;
  size_t element_bytes = 4;  // bytes of an element of a gradient
};

// Makes the variants of `texts`, in this order. A text without a backend becomes one variant for each default
// backend, unless the strategy does not communicate; the same holds for the bucket size, if the strategy has
// buckets. Throws InvalidInput, with a line that begins with --`flag`, for an unknown strategy, option or
// backend, for an option or backend that the strategy does not accept, and for a variant that occurs twice.
std::vector<TrainingVariant> MakeVariants(std::string_view flag, std::span<const std::string> texts,
                                          const VariantDefaults& defaults);

// Returns the backend of torch.distributed over which PyTorch's strategies communicate: the one that
// corresponds to the backend of these variants ("nccl", "mpi"), else "gloo".
std::string PeerBackend(std::span<const TrainingVariant> variants);
// Returns the PyTorch strategies that correspond to these variants, each once eager and once compiled, as
// `modes` says. Throws InvalidInput, with a line that begins with --with_peers, for a variant that sets
// clip_norm or learning_rate, which the Python program does not support.
std::vector<TrainingVariant> MakePeers(std::span<const TrainingVariant> variants,
                                       std::span<const PeerMode> modes);

}  // namespace gradsync::bench
