#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace gradsync::ddp {

// Says how close the gradients with which ranks update the weights are to the gradients of a single process
// on the batches of all ranks.
enum class Agreement {
  kExact,   // equal except for rounding; bitwise equal on all ranks
  kLossy,   // approximately equal; bitwise equal on all ranks
  kDrifts,  // not equal: replicas diverge
};

constexpr std::string_view Name(Agreement agreement) {
  return agreement == Agreement::kExact ? "exact" : agreement == Agreement::kLossy ? "lossy" : "drifts";
}

// An option of a strategy, which users write as NAME=VALUE on the command line. In code VALUE is a number. If
// `words` is not empty, users write a word, whose index in `words` is this number (gather=forward sets 1).
// Unless the member `range` or `has_fractions` is set, the only allowed values are 0 and 1.
struct Option {
  // What an option controls, such as the number of steps of a period (kPeriod). Benchmarks and tests find a
  // strategy's option by its role, because strategies may give options with the same role different names.
  enum class Role {
    kOwn,  // no role: only the strategy uses the option
    // number of steps of a period, at whose end the strategy synchronises; benchmarks use whole periods
    kPeriod,
    kStart,  // number of steps at the start that average gradients exactly
    // If a strategy's option with the role kCarry is not 0, all-gathers of weights may still run when Update
    // returns, and the next step's forward waits for them. If the option is not 0, benchmarks time several
    // steps together, without barriers between the steps, so that the times include this wait.
    kCarry,
    // If a strategy's option with the role kPasses is not 0, ranks reduce gradients in every pass
    // (micro-batch) of a step. If the option is 0, each rank adds the gradients of all its passes, and
    // reduces the sums only in the last pass. The sums take at most the memory of all gradients.
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
  // The words that users write for the values 0, 1, ...; empty if users write numbers.
  std::span<const std::string_view> words = {};
};

// Two options of several strategies: kSmallFirst limits the size of the first bucket that a rank sends in a
// step, and kSmallLast limits the sizes of the buckets that it sends last.
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

// The properties of a strategy, listed below, tell benchmarks and tests how to run and check it.
struct Traits {
  std::string_view name;     // name of the strategy in files, flags and records
  int position = 0;          // position in lists, which begin with the simplest strategy
  std::string_view summary;  // one line for users
  Agreement agreement = Agreement::kExact;
  bool communicates = true;  // false only for the floor, `none`, relative to which costs are measured
  bool overlaps = false;     // communicates during backward
  bool has_buckets = false;  // takes StrategyOptions::bucket_bytes
  bool owns_update = false;  // Update does more than Optimizer::Step, or communicates
  // True if the optimizer's state is in an optimizer that the strategy makes, and not in the optimizer that
  // the caller passes to Update.
  bool owns_state = false;
  // True if each rank keeps only one part of the optimizer's state. Each part of the state is on exactly one
  // rank. But if the strategy has an option with the role kWithinHost, and the option is not 0, each part is
  // on exactly one rank of every host.
  bool shards_state = false;
  bool divides_matrices = true;  // with shards_state: parts may end within matrices
  bool shards_grads = false;     // each rank keeps one part of the gradients between steps
  bool shards_values = false;    // each rank keeps one part of the weights between steps
  bool needs_f32 = false;        // parameters and gradients must be f32
  bool needs_cpu = false;
  bool can_clip = true;  // Update accepts a grad_scale other than 1
  // True if BeginStep changes the memory of every gradient (Parameter::PlaceGrad), so the caller need not
  // allocate memory for gradients.
  bool places_gradients = false;
  double gradient_copies = 0;  // maximum memory of the strategy's buffers, in copies of all gradients
  // A function that returns the memory of the strategy's buffers that gradient_copies does not count, divided
  // by the memory of all gradients. The argument `largest_unit` is the number of elements of the largest unit
  // (group of parameters that are gathered together), divided by that of the model. If the pointer
  // more_copies is null, gradient_copies counts all buffers of the strategy.
  double (*more_copies)(const StrategyOptions& options, int world_size, double largest_unit) = nullptr;
  // The options that users can set in StrategyOptions::values; bucket_bytes is not one of them.
  std::span<const Option> options = {};
  // A function that returns how many times a rank gathers a weight from the other ranks in one step. The step
  // has one forward and one backward, and the result is the mean over all weights. Do not call the function
  // if the ranks have the weights in shared memory, because ranks then gather no weights. The argument
  // `units` has the sizes of the groups of parameters that are gathered together (StrategyContext::units), in
  // forward order. A group's size is its number of elements, divided by the model's. If `gathers` is null, a
  // rank of a strategy with shards_state gathers each weight exactly once per step.
  double (*gathers)(const StrategyOptions& options, std::span<const double> units) = nullptr;
  // A function that makes the strategy's Reference (ddp/lossy/reference.h), which computes the gradients or
  // weights that the strategy must have. Tests and benchmarks compare the strategy's gradients or weights
  // with those of the Reference. If the pointer is null, they compare the strategy's gradients with those of
  // one process on the batches of all ranks.
  std::unique_ptr<Reference> (*reference)(const ReferenceContext& context) = nullptr;
  // The name, in bench/peers/pytorch_ddp.py, of the PyTorch strategy with which benchmarks compare this
  // strategy: "ddp" is DistributedDataParallel, and "ddp_view" is DistributedDataParallel with
  // gradient_as_bucket_view. Empty if benchmarks compare with no PyTorch strategy. Benchmarks also make no
  // comparison with PyTorch if an option of the strategy has a value other than its default, and the option's
  // keeps_twin is false.
  std::string_view pytorch_twin = {};
  // Benchmarks compare the gradients of the PyTorch strategy `pytorch_twin` with the gradients of one process
  // on the batches of all ranks. Benchmarks allow the larger of two relative errors: twin_differs_by, and a
  // tolerance for rounding errors, which depends on the dtype and the batch. twin_differs_by is infinite,
  // which switches the comparison off, if the PyTorch strategy does not update the weights with the mean
  // gradient.
  double twin_differs_by = 0;
  // The unit of the benchmarks' option published_size, which gives a bucket the size that a published
  // experiment used: bytes if true, elements of gradients if false.
  bool published_in_bytes = false;

  // Returns the strategy's option with the name `option`, or null if the strategy has no such option.
  const Option* FindOption(std::string_view option) const {
    for (const Option& candidate : options) {
      if (candidate.name == option) return &candidate;
    }
    return nullptr;
  }
  // Returns the name of the strategy's first option whose role is `role`; empty if the strategy has no such
  // option.
  std::string_view OptionFor(Option::Role role) const {
    for (const Option& candidate : options) {
      if (candidate.role == role) return candidate.name;
    }
    return {};
  }
};

}  // namespace gradsync::ddp
