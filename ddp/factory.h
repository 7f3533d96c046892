#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/interface/context.h"
#include "ddp/interface/strategy.h"
#include "ddp/interface/traits.h"

namespace gradsync::ddp {

// Returns the names of all strategies, beginning with the simplest.
std::vector<std::string> StrategyNames();

// Returns the names of `none`, which sends nothing, and of the strategies whose gradients equal those of a
// single process on the whole batch, except for rounding (Agreement::kExact).
std::vector<std::string> ExactStrategyNames();
// Returns those names of ExactStrategyNames() whose strategy's Update only calls Optimizer::Step, which
// updates all weights (Traits::owns_update is false). With the default options, all of these strategies
// except `none` all-reduce gradients.
std::vector<std::string> AllReduceStrategyNames();

// Throws InvalidInput for an unknown strategy name.
const Traits& TraitsOf(std::string_view name);
// Returns the traits of `none`, the strategy that sends nothing.
const Traits& FloorTraits();

// Throws InvalidInput, naming `option`, if `option` does not allow `value`.
void CheckValue(const Option& option, double value);

// Makes the strategy `name`, such as "core", with the options in StrategyContext::options. Throws
// InvalidInput if
// - the name is unknown, an option is unknown, or an option has a wrong value
// - StrategyOptions::bucket_bytes is 0 and Traits::has_buckets is true
// - StrategyContext::params has a parameter twice, or has only frozen parameters or none
// - a parameter of StrategyContext::units is not in StrategyContext::params
// - the strategy or an option does not support the dtype or device of a parameter that is not frozen
// - the strategy `topk` would send only some elements of a gradient of 2^31 elements or more
// - the option `within` is `host`, but ProcessGroup::host_group throws InvalidInput
std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context);

}  // namespace gradsync::ddp
