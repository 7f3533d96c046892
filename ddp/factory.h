#ifndef GRADSYNC_DDP_FACTORY_H_
#define GRADSYNC_DDP_FACTORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/process_group.h"
#include "ddp/strategy.h"
#include "ddp/traits.h"

namespace gradsync::ddp {

inline constexpr int64_t kDefaultBucketBytes = int64_t{25} << 20;

struct StrategyOptions {
  // Capacity of a bucket, for the strategies that have buckets.
  size_t bucket_bytes = kDefaultBucketBytes;
  // Search every gradient of this rank for NaN and infinity before it is averaged: OnGradReady throws
  // std::runtime_error with parameter, rank and step. Takes a pass over the gradients, on the host.
  bool check_gradients = false;
  // For tests, on the CPU: gathered weights become NaN when they are freed.
  bool spoil_weights = false;
  // No other strategy trains these parameters before this one is destroyed or Reset. A strategy that keeps
  // only parts of the weights may then return the parameters' own memory to the system (on the CPU). Weights
  // must be written again after the strategy, and before a Reset.
  bool is_alone = false;
  // The strategy's options, by name; missing options have their defaults. Throws InvalidInput for values that
  // the traits do not allow.
  std::map<std::string, double, std::less<>> values = {};
};

// The value of an option of these traits.
inline double ValueOf(const Traits& traits, std::string_view option, const StrategyOptions& options) {
  const auto given = options.values.find(option);
  return given == options.values.end() ? traits.FindOption(option)->default_value : given->second;
}

// The value of the option in that role; 0 if there is none.
inline double ValueOf(const Traits& traits, Option::Role role, const StrategyOptions& options) {
  const std::string_view option = traits.OptionFor(role);
  return option.empty() ? 0 : ValueOf(traits, option, options);
}

// The number of steps from one synchronisation to the next.
inline int64_t PeriodOf(const Traits& traits, const StrategyOptions& options) {
  return std::max<int64_t>(1, static_cast<int64_t>(ValueOf(traits, Option::Role::kPeriod, options)));
}

// The number of first steps that average gradients exactly.
inline int64_t StartOf(const Traits& traits, const StrategyOptions& options) {
  return static_cast<int64_t>(ValueOf(traits, Option::Role::kStart, options));
}

// The most memory of its buffers, in copies of all gradients. `largest_unit`: the largest unit's fraction of
// all elements.
inline double CopiesOf(const Traits& traits, const StrategyOptions& options, int world_size,
                       double largest_unit = 1) {
  const double more =
      traits.more_copies == nullptr ? 0 : traits.more_copies(options, world_size, largest_unit);
  return traits.gradient_copies + more;
}

// The arguments of a strategy. Parameters are in forward order; they and the group must outlive the strategy.
// Frozen parameters are left out.
// Every rank makes the same strategies with the same parameters.
struct StrategyContext {
  std::span<model::Parameter* const> params;
  comm::ProcessGroup& group;
  StrategyOptions options;
  // The optimizer of Update, if it is known: then State() is complete before the first update.
  const model::Optimizer* optimizer = nullptr;
  // The units of these parameters, see model::Model::units.
  std::vector<std::vector<model::Parameter*>> units = {};
};

// All strategies, the simplest first.
std::vector<std::string> StrategyNames();

// Strategies whose gradients equal a single process's, and `none`.
std::vector<std::string> ExactStrategyNames();
// Exact strategies that differ only in when they send what: none does the update itself.
std::vector<std::string> AllReduceStrategyNames();

// Throws InvalidInput if there is no strategy of that name.
const Traits& TraitsOf(std::string_view name);
// The traits of `none`, which sends nothing.
const Traits& FloorTraits();

// Throws InvalidInput, naming the option, for a value that it does not allow.
void CheckValue(const Option& option, double value);

// Throws InvalidInput if there is no strategy of this name, an option is wrong, there is no parameter, one is
// listed twice, or a unit has a parameter that is not listed.
std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_FACTORY_H_
