#ifndef GRADSYNC_DDP_TRAITS_H_
#define GRADSYNC_DDP_TRAITS_H_

#include <memory>
#include <span>
#include <string_view>

namespace gradsync::ddp {

// How far the gradients of all ranks are those of a single process on the whole batch.
enum class Agreement {
  kExact,   // up to the rounding of sums; bitwise the same on all ranks
  kLossy,   // approximately; bitwise the same on all ranks
  kDrifts,  // not at all: replicas part
};

// "exact", "lossy", "drifts".
constexpr std::string_view Name(Agreement agreement) {
  return agreement == Agreement::kExact ? "exact" : agreement == Agreement::kLossy ? "lossy" : "drifts";
}

// A number that a strategy takes: NAME=VALUE in a variant's text, a record and StrategyOptions. What is not
// said here makes it a switch, 0 or 1.
struct Option {
  // What others find it by, whatever its name is. A strategy has at most one option for each role.
  enum class Role {
    kOwn,     // nothing: it concerns the strategy alone
    kPeriod,  // every how many steps it synchronises: timed, checked and compared in whole periods
    kStart,   // how many steps at first average gradients exactly
    // Unless it is 0, weights are on their way when a step ends, and the next forward waits for them. A
    // variant is then timed in turns of several steps, without barriers between them.
    kCarry,
    // Unless it is 0, the gradients of every pass of a step are reduced. Else they add up outside of the
    // strategy's buffers, in at most one copy more of all gradients.
    kPasses,
    kWithinHost,  // unless it is 0, every host has all parts of what is sharded
  };

  std::string_view name;
  std::string_view meaning;    // for people, in a line
  bool has_fractions = false;  // else a whole number
  double default_value = 0;
  struct Range {
    double from, to;  // both allowed
  } range = {0, 1};
  Role role = Role::kOwn;
  // These are about values other than the default:
  bool plain_only = false;  // neither in bf16 nor on CUDA
  bool keeps_twin = false;  // PyTorch's way to compare with is still the same
  // If not empty: what the values 0, 1, ... are called.
  std::span<const std::string_view> words = {};
};

// Options that several strategies share.
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

// What others need to know of a strategy. Its own file defines them, and no other file knows its name.
struct Traits {
  std::string_view name;     // also the file's, the flag's and the records'
  std::string_view summary;  // one line, for people
  Agreement agreement = Agreement::kExact;
  bool communicates = true;   // if not, it is the floor that the cost of the others is measured from
  bool overlaps = false;      // communicates during backward
  bool has_buckets = false;   // takes StrategyOptions::bucket_bytes
  bool owns_update = false;   // does not update every weight by Optimizer::Step alone, or communicates then
  bool owns_state = false;    // leaves the state of the optimizer that Update gets alone: it has its own
  bool shards_state = false;  // of which every rank has one part, as many as there are ranks (but kWithin)
  bool divides_matrices = true;  // if it shards the state: parts end within matrices
  bool shards_grads = false;     // likewise, between steps
  bool shards_values = false;    // likewise, between steps
  bool needs_f32 = false;        // of parameters and gradients
  bool needs_cpu = false;
  bool can_clip = true;  // Update takes another scale than 1
  // Puts every gradient into storage of its own before forward. Others leave them where they are.
  bool places_gradients = false;
  double gradient_copies = 0;  // memory of its buffers, in copies of all gradients, at most
  // Extra copies that depend on its options, the world, or which part of all elements the largest unit of the
  // model has; null: none.
  double (*more_copies)(const StrategyOptions& options, int world_size, double largest_unit) = nullptr;
  // The numbers that it takes beside the size of buckets.
  std::span<const Option> options = {};
  // How often a step gathers the weights, which may depend on its options and the units of the model, given
  // as parts of all elements, the first of forward first. Null: once, if it shards the optimizer's state.
  double (*gathers)(const StrategyOptions& options, std::span<const double> units) = nullptr;
  // What its steps are compared with, see MakeReference; null: a single process on the whole batch.
  std::unique_ptr<Reference> (*reference)(const ReferenceContext& context) = nullptr;
  // What PyTorch calls the way that compares with it: "ddp" is DistributedDataParallel, "ddp_view" the same
  // with gradient_as_bucket_view; see bench/peers/pytorch_training.py. Empty: it has none. With options by
  // default, as PyTorch's are fixed, or such that keep it.
  std::string_view pytorch_twin = {};
  // How far, of their norm, the twin's gradients may be from the mean over ranks beside what any order of
  // sums brings about; infinite: the weights of its step do not follow from their mean.
  double twin_differs_by = 0;
  // The size of buckets in the published experiment counts bytes, and not elements as the others' does.
  bool published_in_bytes = false;

  // Null if there is none of that name.
  const Option* FindOption(std::string_view option) const {
    for (const Option& candidate : options) {
      if (candidate.name == option) return &candidate;
    }
    return nullptr;
  }
  // The name of the option in that role; empty: there is none.
  std::string_view OptionFor(Option::Role role) const {
    for (const Option& candidate : options) {
      if (candidate.role == role) return candidate.name;
    }
    return {};
  }
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_TRAITS_H_
