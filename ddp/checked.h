#pragma once

#include <memory>

#include "ddp/factory.h"

namespace gradsync::ddp {

// Wraps the strategy, which was made from `context`, in the checks that all strategies need: every parameter
// is ready exactly once between BeginStep and Finish, else std::logic_error; check_gradients; no grad_scale
// that its traits exclude.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context);

}  // namespace gradsync::ddp
