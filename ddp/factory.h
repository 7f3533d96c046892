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
  // Look for NaN and infinity in every gradient of this rank before it is averaged, after which every rank
  // would have them: OnGradReady throws std::runtime_error with parameter, rank and step. Takes a pass over
  // the gradients, on the host.
  bool check_gradients = false;
  // For tests, on the CPU: gathered weights become NaN when they are let go.
  bool spoil_weights = false;
  // No other strategy trains these parameters before this one is gone, or is Reset: where it keeps parts of
  // the weights alone, memory of the parameters' own is given back to the system (on the CPU). Weights must
  // then be written again after the strategy, and before a Reset.
  bool is_alone = false;
  // The strategy's own options, by name; those left out have their defaults. Values that traits do not allow
  // are refused with InvalidInput.
  std::map<std::string, double, std::less<>> values = {};
};

// The value of an option that these traits have.
inline double ValueOf(const Traits& traits, std::string_view option, const StrategyOptions& options) {
  const auto given = options.values.find(option);
  return given == options.values.end() ? traits.FindOption(option)->default_value : given->second;
}

// The value of the option in that role; 0 if there is none.
inline double ValueOf(const Traits& traits, Option::Role role, const StrategyOptions& options) {
  const std::string_view option = traits.OptionFor(role);
  return option.empty() ? 0 : ValueOf(traits, option, options);
}

// Every how many steps it synchronises.
inline int64_t PeriodOf(const Traits& traits, const StrategyOptions& options) {
  return std::max<int64_t>(1, static_cast<int64_t>(ValueOf(traits, Option::Role::kPeriod, options)));
}

// How many steps at first average gradients exactly.
inline int64_t StartOf(const Traits& traits, const StrategyOptions& options) {
  return static_cast<int64_t>(ValueOf(traits, Option::Role::kStart, options));
}

// Memory of its buffers, in copies of all gradients, at most. `largest_unit`: its part of all elements.
inline double CopiesOf(const Traits& traits, const StrategyOptions& options, int world_size,
                       double largest_unit = 1) {
  const double more =
      traits.more_copies == nullptr ? 0 : traits.more_copies(options, world_size, largest_unit);
  return traits.gradient_copies + more;
}

// What a strategy is made from. Parameters in forward order; they and the group must outlive it.
// Every rank makes the same strategies with the same parameters.
struct StrategyContext {
  std::span<model::Parameter* const> params;
  comm::ProcessGroup& group;
  StrategyOptions options;
  // The one that Update will get, if it is known: then State() is whole before the first update.
  const model::Optimizer* optimizer = nullptr;
  // The units of these parameters, see model::Model::units.
  std::vector<std::vector<model::Parameter*>> units = {};
};

// All strategies, the simplest first.
std::vector<std::string> StrategyNames();

// Those of them whose gradients are a single process's, and the one that sends nothing.
std::vector<std::string> ExactStrategyNames();
// Those of them that differ in nothing but when they send what: none owns the update.
std::vector<std::string> AllReduceStrategyNames();

// Throws InvalidInput if there is no strategy of that name.
const Traits& TraitsOf(std::string_view name);
// The strategy that sends nothing.
const Traits& FloorTraits();

// Throws InvalidInput, naming the option, for a value that it does not allow.
void CheckValue(const Option& option, double value);

// Throws InvalidInput if there is no strategy of that name, an option is wrong, no parameter to train, one is
// listed twice, or a unit has another.
std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_FACTORY_H_
