#pragma once

#include <cstdint>
#include <memory>

#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Returns a strategy that averages all gradients exactly in its first `num_steps` steps. In later steps the
// returned strategy calls the argument `strategy` to average the gradients. The argument `strategy` must have
// been made with context.params and context.group. If `num_steps` is 0, StartExactly returns `strategy`
// itself. Otherwise Update of the returned strategy only calls Optimizer::Step, and never strategy->Update.
std::unique_ptr<Strategy> StartExactly(int64_t num_steps, std::unique_ptr<Strategy> strategy,
                                       const StrategyContext& context);

}  // namespace gradsync::ddp
