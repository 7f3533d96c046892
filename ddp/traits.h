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

// A number that a strategy takes: NAME=VALUE in a variant's text, a record and StrategyOptions.
struct Option {
  enum class Unit {
    kNumber,  // whole or not
    kCount,   // a whole number
    kBytes,   // a whole number, which people also write as 12Mi
  };

  std::string_view name;
  std::string_view meaning;  // for people, in a line
  Unit unit = Unit::kNumber;
  double default_value = 0;
  double minimum = 0, maximum = 0;  // both allowed
  // These are about values other than the default:
  bool plain_only = false;  // neither in bf16 nor on CUDA
  bool keeps_twin = false;  // PyTorch's way to compare with is still the same
  // If not empty: what the values 0, 1, ... are called.
  std::span<const std::string_view> words = {};
};

// Options that several strategies share.
inline constexpr Option kSmallFirst = {
    "small_first", "1: the first bucket holds at most 1 MiB", Option::Unit::kCount, 1, 0, 1, false, true};
inline constexpr Option kSmallLast = {
    "small_last",
    "1: a bucket holds at most max(1 MiB, bytes of later gradients), whose computation hides it",
    Option::Unit::kCount,
    1,
    0,
    1,
    false,
    true};

inline constexpr std::string_view kWithinWords[] = {"world", "host"};
inline constexpr Option kWithin = {
    "within",
    "who shares one set of parts: the world, or each host, between which gradients are all-reduced",
    Option::Unit::kCount,
    0,
    0,
    1,
    false,
    false,
    kWithinWords};

class Reference;
struct ReferenceContext;
struct StrategyOptions;

// What others need to know of a strategy. Its own file defines them, and no other file knows its name.
struct Traits {
  std::string_view name;     // also the file's, the flag's and the records'
  std::string_view summary;  // one line, for people
  Agreement agreement = Agreement::kExact;
  bool communicates = true;    // if not, it is the floor that the cost of the others is measured from
  bool overlaps = false;       // communicates during backward
  bool has_buckets = false;    // takes StrategyOptions::bucket_bytes
  bool owns_update = false;    // does not update every weight by Optimizer::Step alone, or communicates then
  bool owns_state = false;     // leaves the state of the optimizer that Update gets alone: it has its own
  bool shards_state = false;   // of which every rank has one part, as many as there are ranks (but kWithin)
  bool shards_grads = false;   // likewise, between steps
  bool shards_values = false;  // likewise, between steps
  bool needs_f32 = false;      // of parameters and gradients
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
  // The option that says every how many steps it synchronises; empty: in each one. A variant is timed,
  // checked and compared in whole periods.
  std::string_view period_option = {};
  // The option that says how many steps at first average gradients exactly; empty: none does.
  std::string_view start_option = {};
  // The option that, unless it is 0, leaves weights on their way when a step ends, which the next forward
  // waits for; empty: there is none. A variant is then timed in turns of several steps, without barriers
  // between them.
  std::string_view carry_option = {};
  // The option that, unless it is 0, reduces the gradients of every pass of a step. Else they add up outside
  // of the strategy's buffers, in at most one copy more of all gradients. Empty: there is none.
  std::string_view passes_option = {};
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
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_TRAITS_H_
