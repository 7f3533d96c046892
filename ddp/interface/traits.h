#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace gradsync::ddp {

// Tells how close a strategy's gradients are to the gradients of one process on the batches of all ranks.
enum class Agreement {
  kExact,   // equal except for rounding; bitwise equal on all ranks
  kLossy,   // approximately equal; bitwise equal on all ranks
  kDrifts,  // not equal: replicas diverge
};

constexpr std::string_view Name(Agreement agreement) {
  return agreement == Agreement::kExact ? "exact" : agreement == Agreement::kLossy ? "lossy" : "drifts";
}

// An option of a strategy, which users write as NAME=VALUE on the command line. The value is 0 or 1 unless
// `range` or `has_fractions` is set. If `words` is not empty, users write words[VALUE] instead of the number.
struct Option {
  // The role of an option says what the option controls. Benchmarks and tests can find an option by its role,
  // without its name.
  enum class Role {
    kOwn,  // no role: only the strategy uses the option
    // number of steps of a period, at whose end the strategy synchronises; benchmarks use whole periods
    kPeriod,
    kStart,  // number of steps at the start that average gradients exactly
    // If the option is not 0, all-gathers of weights may continue after Update, into the next step's forward.
    kCarry,
    // If the option is not 0, ranks reduce gradients in every pass (micro-batch) of a step, else only in the
    // last.
    kPasses,
    kWithinHost,  // if not 0, the strategy shards within each host, so every host has all parts
  };

  std::string_view name;
  std::string_view meaning;    // one line for users
  bool has_fractions = false;  // if false, the value is a whole number
  double default_value = 0;
  struct Range {
    double from, to;  // the smallest and the largest allowed value
  } range = {0, 1};
  Role role = Role::kOwn;
  // The next two fields concern values other than the default:
  bool plain_only = false;  // allowed only for f32 and f64 parameters on CPUs
  bool keeps_twin = false;  // benchmarks also compare them with Traits::pytorch_twin
  // The words that users write for the values 0, 1 and so on; empty if users write numbers.
  std::span<const std::string_view> words = {};
};

// The options kSmallFirst and kSmallLast of several strategies limit the sizes of the first and the last
// buckets of a step.
inline constexpr Option kSmallFirst = {.name = "small_first",
                                       .meaning = "1: the first bucket holds at most 1 MiB",
                                       .default_value = 1,
                                       .keeps_twin = true};
inline constexpr Option kSmallLast = {
    .name = "small_last",
    .meaning = "1: a bucket holds at most max(1 MiB, bytes of later gradients), whose computation hides it",
    .default_value = 1,
    .keeps_twin = true};

constexpr Option PeriodOption(std::string_view meaning) {
  return {.name = "period",
          .meaning = meaning,
          .default_value = 8,
          .range = {1, 1e6},
          .role = Option::Role::kPeriod};
}
constexpr Option StartOption(std::string_view name, std::string_view meaning) {
  return {.name = name, .meaning = meaning, .range = {0, 1e9}, .role = Option::Role::kStart};
}

inline constexpr std::string_view kWithinWords[] = {"world", "host"};
inline constexpr Option kWithin = {
    .name = "within",
    .meaning =
        "who shares one set of parts: the world, or each host, between which gradients are all-reduced",
    .role = Option::Role::kWithinHost,
    .words = kWithinWords};

class Reference;
struct ReferenceContext;
struct StrategyOptions;

// The properties of a strategy, which benchmarks and tests read.
struct Traits {
  std::string_view name;     // name of the strategy in files, flags and records
  int position = 0;          // position in lists, which begin with the simplest strategy
  std::string_view summary;  // one line for users
  Agreement agreement = Agreement::kExact;
  bool communicates = true;  // false only for the floor, `none`, relative to which costs are measured
  bool overlaps = false;     // communicates during backward
  bool has_buckets = false;  // takes StrategyOptions::bucket_bytes
  bool owns_update = false;  // Update does more than Optimizer::Step, or communicates
  // True if the optimizer's state is in an optimizer that the strategy makes, not in the one passed to
  // Update.
  bool owns_state = false;
  // True if the optimizer's state is divided among the ranks, so that each rank keeps one part. If an option
  // with the role kWithinHost is not 0, the state is divided among the ranks of each host.
  bool shards_state = false;
  bool divides_matrices = true;  // with shards_state: parts may end within matrices
  bool shards_grads = false;     // each rank keeps one part of the gradients between steps
  bool shards_values = false;    // each rank keeps one part of the weights between steps
  bool needs_f32 = false;        // parameters and gradients must be f32
  bool needs_cpu = false;
  bool can_clip = true;  // Update accepts a grad_scale other than 1
  // True if the strategy provides the memory of gradients (Parameter::PlaceGrad), so that the caller
  // allocates none.
  bool places_gradients = false;
  double gradient_copies = 0;  // maximum memory of the strategy's buffers, in copies of all gradients
  // Returns approximately the maximum memory of buffers that gradient_copies does not count, as a multiple of
  // all gradients' memory. `largest_unit` is the fraction of the model's elements in the largest group of
  // parameters that ranks gather together. CopiesOf counts a null more_copies as 0. Neither gradient_copies
  // nor more_copies counts weights in memory that ranks share.
  double (*more_copies)(const StrategyOptions& options, int world_size, double largest_unit) = nullptr;
  // The options that users can set in StrategyOptions::values, which do not include bucket_bytes.
  std::span<const Option> options = {};
  // Returns how many times a rank gathers each weight in one forward and backward, as a mean over all
  // elements of the model. The result does not apply if Strategy::places_values() is true: ranks then gather
  // no weights. units[i] is the number of elements in StrategyContext::units[i], parameters that are gathered
  // together, divided by the model's number of elements. If `gathers` is null, ranks gather each weight at
  // most once per step.
  double (*gathers)(const StrategyOptions& options, std::span<const double> units) = nullptr;
  // Makes an object that computes the gradients or weights that the strategy must have, for tests and
  // benchmarks. If `reference` is null, gradients are compared with those of one process on the batches of
  // all ranks.
  std::unique_ptr<Reference> (*reference)(const ReferenceContext& context) = nullptr;
  // The PyTorch strategy with which benchmarks compare this strategy; empty if there is none. The value is a
  // strategy's name in bench/peers/pytorch_ddp.py, such as "ddp" for DistributedDataParallel.
  std::string_view pytorch_twin = {};
  // Relative error that benchmarks allow in the gradients of the PyTorch strategy `pytorch_twin`, if this is
  // more than the tolerance for rounding. The gradients are compared with those of one process on the batches
  // of all ranks. If twin_differs_by is infinite, benchmarks do not check the gradients of the PyTorch
  // strategy.
  double twin_differs_by = 0;
  // True if the option published_size, a bucket size from a publication, counts bytes; false if it counts
  // elements.
  bool published_in_bytes = false;

  // Returns the option with the name `option`, or null if the strategy has no option with this name.
  const Option* FindOption(std::string_view option) const {
    for (const Option& candidate : options) {
      if (candidate.name == option) return &candidate;
    }
    return nullptr;
  }
  // Returns the name of the first option with the role `role`, or an empty text if there is none.
  std::string_view OptionFor(Option::Role role) const {
    for (const Option& candidate : options) {
      if (candidate.role == role) return candidate.name;
    }
    return {};
  }
};

}  // namespace gradsync::ddp
