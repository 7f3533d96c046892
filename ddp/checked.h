#pragma once

#include <memory>

#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Returns a strategy that calls `strategy`, which was made from `context`, and makes the checks of all
// strategies: throws std::logic_error unless every parameter is ready exactly once between BeginStep and
// Finish, checks gradients if check_gradients is set, and rejects a grad_scale that the traits exclude.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context);

}  // namespace gradsync::ddp
