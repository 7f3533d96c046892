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
// single process on the whole batch.
std::vector<std::string> ExactStrategyNames();
// Returns the names of ExactStrategyNames() whose Update is only Optimizer::Step on all weights
// (Traits::owns_update is false). All of these strategies except `none` all-reduce gradients.
std::vector<std::string> AllReduceStrategyNames();

// Throws InvalidInput for an unknown strategy name.
const Traits& TraitsOf(std::string_view name);
// Returns the traits of `none`, the strategy that sends nothing.
const Traits& FloorTraits();

// Throws InvalidInput, naming the option, for a value that the option does not allow.
void CheckValue(const Option& option, double value);

// Makes a strategy. Throws InvalidInput if the name is unknown, an option is wrong, there is no parameter, a
// parameter is listed twice, or a unit has a parameter that is not listed.
std::unique_ptr<Strategy> MakeStrategy(std::string_view name, const StrategyContext& context);

}  // namespace gradsync::ddp
