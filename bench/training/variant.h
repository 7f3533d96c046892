#ifndef GRADSYNC_BENCH_TRAINING_VARIANT_H_
#define GRADSYNC_BENCH_TRAINING_VARIANT_H_

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

// What updates the weights.
enum class OptimizerKind { kAdamW, kSgd, kMuon };
// "given": a variant has none of its own.
inline constexpr std::string_view kOptimizerWords[] = {"given", "adamw", "sgd", "muon"};
constexpr std::string_view Name(OptimizerKind kind) { return kOptimizerWords[1 + static_cast<size_t>(kind)]; }

// A variant that there is, and what it means. Its options are only those that differ from their defaults: the
// strategy's own (its traits), those that the benchmark gives to every strategy (BenchOptions), and the
// capacity of buckets, if it has buckets, in one of these ways:
//
//   bucket_bytes     in bytes
//   bucket_elements  in elements of gradients
//   published_size   as in the published experiment: for `core` in bytes, for the others in elements
struct TrainingVariant : Variant {
  const ddp::Traits* traits = nullptr;  // the strategy's; a peer's: those of its twin among gradsync's
  std::string floor = {};               // the strategy that its cost is measured from
  std::map<std::string, double, std::less<>> values = {};  // of options other than the capacity of buckets
  int64_t bucket_bytes = 0;                                // capacity of a bucket; 0: it has no buckets
  std::set<std::string, std::less<>> named = {};           // options that it names, at their defaults too

  // See Turn; infinite unless it is given.
  double clip_norm() const;
  // The optimizer's; 0: it has none of its own.
  double learning_rate() const;
  // nullopt: it has none of its own.
  std::optional<OptimizerKind> optimizer() const;
  // What the strategy is made with.
  ddp::StrategyOptions strategy_options() const;
  // Every how many steps it synchronises.
  int64_t period() const { return ddp::PeriodOf(*traits, strategy_options()); }
  // How many steps in a row are its turn, of which a sample is the mean; and how many come first, untimed.
  // The weights that a step leaves to the next forward are waited for in it, and not at a barrier.
  int64_t turn_steps() const { return carries() ? 3 : period(); }
  int64_t lead_in_steps() const { return carries() ? 1 : 0; }
  bool carries() const { return ddp::ValueOf(*traits, ddp::Option::Role::kCarry, strategy_options()) != 0; }
  // Into how many parts it divides what it shards: as many ranks have one each.
  int num_parts(const comm::World& world) const {
    const bool within_host = ddp::ValueOf(*traits, ddp::Option::Role::kWithinHost, strategy_options()) != 0;
    return within_host ? std::max(1, world.local_size) : world.size;
  }
  bool is_peer() const { return !framework.empty(); }
  // What PyTorch's process calls a peer (bench/peers/pytorch_training.py).
  std::string peer() const;
  // Whether its replicas are meant to part.
  bool drifts() const { return traits->agreement == ddp::Agreement::kDrifts; }
  // Adds itself, and what its traits say.
  void Describe(Record& record) const;
};

// Options that every variant takes, whatever its strategy: what the benchmark does in its steps.
std::span<const ddp::Option> BenchOptions();

// An option's value as it is written in a variant.
std::string PrintValue(const ddp::Option& option, double value);

// What variants that leave it out have.
struct VariantDefaults {
  std::vector<std::string> backends;
  std::vector<int64_t> bucket_bytes;
  size_t element_bytes = 4;  // of a gradient
};

// The variants that `texts` ask for, in that order: those without a backend or without a size once for each
// of the defaults that the strategy takes. `none` takes neither. Throws InvalidInput with a line that begins
// with --`flag` and says what is wrong: an unknown strategy, option or backend, one that the strategy does
// not take, or a variant that is there twice.
std::vector<TrainingVariant> MakeVariants(std::string_view flag, std::span<const std::string> texts,
                                          const VariantDefaults& defaults);

// PyTorch's ways that compare with these variants, each once in each of the modes of PeerOptions. Throws
// InvalidInput, in a line that begins with --with_peers, for a variant that clips gradients or has a learning
// rate of its own: no peer does.
std::vector<TrainingVariant> PeersOf(std::span<const TrainingVariant> variants,
                                     std::span<const PeerMode> modes);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_VARIANT_H_
