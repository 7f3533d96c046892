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

enum class OptimizerKind { kAdamW, kSgd, kMuon };
// The possible values of a variant's option `optimizer`; "given" is the optimizer of the flag --optimizer.
inline constexpr std::string_view kOptimizerWords[] = {"given", "adamw", "sgd", "muon"};
constexpr std::string_view Name(OptimizerKind kind) { return kOptimizerWords[1 + static_cast<size_t>(kind)]; }

// A variant is what a benchmark of training measures: a strategy with its options, and the backend over which
// it communicates. MakeVariants checks the names of strategy, options and backend, and reads the values of
// the options. MakeVariants leaves options that are set to their default out of the member `options` of the
// base struct Variant. There are options of the strategy, options of the benchmark itself (BenchOptions),
// and, if the strategy has buckets, their size in one of three forms:
//
//   bucket_bytes     in bytes
//   bucket_elements  in elements of gradients
//   published_size   in the published experiment's unit: bytes for `core` and `core_update`, else elements
struct TrainingVariant : Variant {
  // `traits` points to the properties of the variant's strategy (see ddp::Traits). For a strategy of PyTorch,
  // `traits` points to the properties of the gradsync strategy with which PyTorch's is compared.
  const ddp::Traits* traits = nullptr;
  std::string floor = {};  // name of the strategy without communication; costs are measured from its time
  // `values` maps the names of the variant's options to their values. An option that is set to its default
  // value is not in the map. The bucket size is not in the map, but in the member bucket_bytes. If an option
  // takes words instead of numbers, its value in the map is the word's index in Option::words.
  std::map<std::string, double, std::less<>> values = {};
  int64_t bucket_bytes = 0;  // 0 if the strategy has no buckets
  // The names of the options that the variant's text sets, except the backend's options. The set also has
  // options that the text sets to their default values.
  std::set<std::string, std::less<>> named = {};

  // clip_norm(), learning_rate() and optimizer() return the values of the variant's options with these names.
  // If the option is not given, or is given with its default value, clip_norm() returns infinity,
  // learning_rate() 0, and optimizer() nullopt.
  double clip_norm() const;
  double learning_rate() const;
  std::optional<OptimizerKind> optimizer() const;
  ddp::StrategyOptions strategy_options() const;
  // For local SGD and DiLoCo, returns the option `period`: the number of training steps from one
  // synchronisation of the ranks' weights to the next. Returns 1 for all other strategies.
  int64_t period() const { return ddp::PeriodOf(*traits, strategy_options()); }
  // A benchmark measures a variant several times, and each of these measurements is called a turn. In a turn,
  // the ranks run lead_in_steps() untimed and then turn_steps() timed training steps, without a barrier
  // between any two steps. The mean time of the timed steps is one sample. A turn has several steps if the
  // strategy averages weights only every few steps. A turn also has several steps if the strategy lets
  // all-gathers of the new weights still run when a step ends (carries()). These all-gathers may delay the
  // next step's forward, and the measured time of the timed steps includes the delay.
  int64_t turn_steps() const { return carries() ? 3 : period(); }
  int64_t lead_in_steps() const { return carries() ? 1 : 0; }
  bool carries() const { return ddp::ValueOf(*traits, ddp::Option::Role::kCarry, strategy_options()) != 0; }
  // Returns among how many ranks the variant's strategy divides what it shards, such as the optimizer's
  // state: all ranks, or those of this host.
  int num_parts(const comm::World& world) const {
    const bool within_host = ddp::ValueOf(*traits, ddp::Option::Role::kWithinHost, strategy_options()) != 0;
    return within_host ? std::max(1, world.local_size) : world.size;
  }
  bool is_peer() const { return !framework.empty(); }
  // For a strategy of PyTorch, returns its name in bench/peers/pytorch_training.py, such as "ddp". If
  // `options` names a bucket size, bucket_bytes follows: "ddp:1048576". If the model is compiled, the name
  // ends with "_compiled".
  std::string peer() const;
  // Returns whether the strategy lets the ranks' weights differ after some or all steps, as local SGD does.
  bool drifts() const { return traits->agreement == ddp::Agreement::kDrifts; }
  void Describe(Record& record) const;
};

// Returns the definitions of the options clip_norm, learning_rate and optimizer, which the benchmark itself
// implements.
std::span<const ddp::Option> BenchOptions();

// Returns `value` as a variant's text gives it: one of option.words, or a number if `option` has no words.
std::string PrintValue(const ddp::Option& option, double value);

// The backends and the bucket sizes in bytes that MakeVariants uses for a variant's text that names no
// backend or no bucket size.
struct VariantDefaults {
  std::vector<std::string> backends;
  std::vector<int64_t> bucket_bytes;
  size_t element_bytes = 4;  // bytes of an element of a gradient
};

// Makes variants (a strategy, its options and a backend) from `texts` such as "core:bucket_bytes=1Mi@gloo",
// in the order of `texts`. A text without a backend becomes one variant for each of defaults.backends, or one
// variant without a backend if the strategy does not communicate. A text without a bucket size becomes one
// variant for each of defaults.bucket_bytes, if the strategy has buckets. Throws InvalidInput, with a message
// that begins with --`flag`, for a malformed text, an unknown strategy, option or backend, an option, value
// or backend that the strategy does not accept, and a variant that occurs twice.
std::vector<TrainingVariant> MakeVariants(std::string_view flag, std::span<const std::string> texts,
                                          const VariantDefaults& defaults);

// Returns the torch.distributed backend for PyTorch's strategies in a benchmark that compares them with the
// gradsync strategies of `variants`. The result is BackendTraits::pytorch_backend of the first variant whose
// pytorch_backend is not "gloo", such as "nccl". If there is no such variant, the result is "gloo".
std::string PeerBackend(std::span<const TrainingVariant> variants);
// Returns the PyTorch strategies with which `variants` can be compared (Traits::pytorch_twin), in all
// `modes`: eager, compiled or both. No two of the returned strategies have the same peer(). MakePeers leaves
// out variants whose Traits::pytorch_twin is empty. MakePeers also leaves out variants that set an option
// whose Option::keeps_twin is false to a value other than the default. Throws InvalidInput if a variant that
// is not left out sets clip_norm or learning_rate to a value other than 0.
std::vector<TrainingVariant> MakePeers(std::span<const TrainingVariant> variants,
                                       std::span<const PeerMode> modes);

}  // namespace gradsync::bench
