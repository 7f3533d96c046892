#ifndef GRADSYNC_DDP_EXACT_START_H_
#define GRADSYNC_DDP_EXACT_START_H_

#include <cstdint>
#include <memory>

#include "ddp/factory.h"

namespace gradsync::ddp {

// A strategy whose first steps, as many as StartOf says, average gradients exactly: an
// all-reduce of each, where it is, in reverse forward order. In these steps `strategy`, which is made from
// the same context and changes gradients alone, hears of nothing. With 0 steps it is `strategy` itself.
std::unique_ptr<Strategy> StartExactly(int64_t num_steps, std::unique_ptr<Strategy> strategy,
                                       const StrategyContext& context);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_EXACT_START_H_
