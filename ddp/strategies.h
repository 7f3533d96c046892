#pragma once

#include <memory>

#include "ddp/factory.h"

// The list of strategies, beginning with the simplest. A row contains the name of the strategy's file. The
// file defines kTraits and Make in a namespace of this name.
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
