#ifndef GRADSYNC_DDP_STRATEGIES_H_
#define GRADSYNC_DDP_STRATEGIES_H_

#include <memory>

#include "ddp/factory.h"

// One row per strategy, the simplest first: the file's name. The file defines kTraits and Make in a namespace
// of this name.
#define GRADSYNC_STRATEGIES(ROW) \
  ROW(none)                      \
  ROW(naive)                     \
  ROW(flat)                      \
  ROW(overlap)                   \
  ROW(bucketed_sync)             \
  ROW(bucketed_async)            \
  ROW(core)                      \
  ROW(core_update)               \
  ROW(zero1)                     \
  ROW(zero2)                     \
  ROW(zero3)                     \
  ROW(owned)                     \
  ROW(bf16_wire)                 \
  ROW(powersgd)                  \
  ROW(topk)                      \
  ROW(local_sgd)                 \
  ROW(diloco)

namespace gradsync::ddp {

#define GRADSYNC_DECLARE(name)                                    \
  namespace name {                                                \
  extern const Traits kTraits;                                    \
  std::unique_ptr<Strategy> Make(const StrategyContext& context); \
  }
GRADSYNC_STRATEGIES(GRADSYNC_DECLARE)
#undef GRADSYNC_DECLARE

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_STRATEGIES_H_
