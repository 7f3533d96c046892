#pragma once

#include <cstdint>
#include <memory>

#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Returns a strategy that averages gradients exactly in its first `num_steps` steps (see StartOf), with one
// all-reduce for each gradient, in place, in reverse forward order. In later steps it calls `strategy`, which
// must have been made from `context`. `strategy` must average gradients, and leave the update of the weights
// to the optimizer. Returns `strategy` itself if `num_steps` is 0.
std::unique_ptr<Strategy> StartExactly(int64_t num_steps, std::unique_ptr<Strategy> strategy,
                                       const StrategyContext& context);

}  // namespace gradsync::ddp
