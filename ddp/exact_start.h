#pragma once

#include <cstdint>
#include <memory>

#include "ddp/factory.h"

namespace gradsync::ddp {

// A strategy whose first `num_steps` steps (see StartOf) average gradients exactly: one all-reduce
// per gradient, in place, in reverse forward order. `strategy` is made from this context and changes only
// gradients; it is not called in these steps. With 0 steps, returns `strategy`.
std::unique_ptr<Strategy> StartExactly(int64_t num_steps, std::unique_ptr<Strategy> strategy,
                                       const StrategyContext& context);

}  // namespace gradsync::ddp
