#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/process_group.h"
#include "ddp/interface/strategy.h"
#include "ddp/interface/traits.h"

namespace gradsync::ddp {

inline constexpr int64_t kDefaultBucketBytes = int64_t{25} << 20;

struct StrategyOptions {
  // Maximum bytes of a bucket, before its padding to equal parts (PadToParts), for strategies with
  // Traits::has_buckets. A parameter with more bytes than bucket_bytes has a bucket with no other parameter.
  // The strategy `owned` is an exception: to keep padding small, it may put several matrices into a bucket
  // larger than bucket_bytes (PlanOwned).
  size_t bucket_bytes = kDefaultBucketBytes;
  // If true, OnGradReady searches each gradient of this rank for NaN and infinity before the ranks average
  // the gradient. If OnGradReady finds one, it throws std::runtime_error, which names parameter, rank and
  // step.
  bool check_gradients = false;
  // For tests on the CPU: if true, the strategy `zero3` overwrites a unit's gathered weights with NaN when it
  // no longer needs them, so that a test notices a later read.
  bool spoil_weights = false;
  // If is_alone is true, the caller promises that only the strategy made with these options trains its
  // parameters. The caller keeps this promise until the strategy is destroyed or Strategy::Reset is called.
  // If is_alone is true, a strategy that keeps the weights elsewhere may free the parameters' own memory on
  // the CPU. The weights in the freed memory are lost, so the caller must write the weights again after
  // Reset. The parameters hold the trained weights after the strategy is destroyed, if the caller has called
  // CompleteValues after the strategy's last step.
  bool is_alone = false;
  // The strategy's options, by name; missing options have their defaults. MakeStrategy throws InvalidInput
  // for names and values that Traits::options does not allow.
  std::map<std::string, double, std::less<>> values = {};
};

inline double ValueOf(const Traits& traits, std::string_view option, const StrategyOptions& options) {
  const auto given = options.values.find(option);
  return given == options.values.end() ? traits.FindOption(option)->default_value : given->second;
}

// Returns the value of the strategy's option whose role (what the option controls, see Option::Role) is
// `role`, or 0 if the strategy has no such option.
inline double ValueOf(const Traits& traits, Option::Role role, const StrategyOptions& options) {
  const std::string_view option = traits.OptionFor(role);
  return option.empty() ? 0 : ValueOf(traits, option, options);
}

// Returns the number of steps from one synchronisation to the next: for the strategies local SGD and DiLoCo
// the value of their option `period`, for other strategies 1.
inline int64_t PeriodOf(const Traits& traits, const StrategyOptions& options) {
  return std::max<int64_t>(1, static_cast<int64_t>(ValueOf(traits, Option::Role::kPeriod, options)));
}

// Returns the number of first steps in which a lossy strategy averages gradients exactly: the value of its
// option with the role kStart, or 0 if it has no such option.
inline int64_t StartOf(const Traits& traits, const StrategyOptions& options) {
  return static_cast<int64_t>(ValueOf(traits, Option::Role::kStart, options));
}

// Returns approximately the maximum memory of the strategy's buffers on a rank, as a multiple of the memory
// of all gradients. `largest_unit` is the number of elements of the largest unit (group of parameters that
// are gathered together), divided by that of the model.
inline double CopiesOf(const Traits& traits, const StrategyOptions& options, int world_size,
                       double largest_unit = 1) {
  const double more =
      traits.more_copies == nullptr ? 0 : traits.more_copies(options, world_size, largest_unit);
  return traits.gradient_copies + more;
}

// The arguments that MakeStrategy needs besides the strategy's name. `params` is in forward order; the
// strategy does not train frozen parameters. The parameters and the process group `group` must outlive the
// strategy. All ranks must make the same strategy, with equal options and parameter shapes.
struct StrategyContext {
  std::span<model::Parameter* const> params;
  comm::ProcessGroup& group;
  StrategyOptions options;
  // The optimizer that the caller will pass to Strategy::Update, or null if it is not known yet. If it is
  // known, a strategy that shards the optimizer's state allocates this rank's part of the state in its
  // constructor, and Strategy::State returns this part even before the first update.
  const model::Optimizer* optimizer = nullptr;
  // Groups of parameters that the strategy `zero3` gathers and frees together, in forward order
  // (model::Model::units).
  std::vector<std::vector<model::Parameter*>> units = {};
};

}  // namespace gradsync::ddp
