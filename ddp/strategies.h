#pragma once

#include <memory>

#include "ddp/interface/context.h"
#include "ddp/strategy_list.h"

namespace gradsync::ddp {

// Each file in ddp/strategies/ defines one strategy for the synchronisation of gradients, in a namespace that
// has the strategy's name. In this namespace, the constant kTraits has the strategy's properties, and the
// function Make makes the strategy.
#define GRADSYNC_DECLARE(name)                                    \
  namespace name {                                                \
  extern const Traits kTraits;                                    \
  std::unique_ptr<Strategy> Make(const StrategyContext& context); \
  }
GRADSYNC_STRATEGIES(GRADSYNC_DECLARE)
#undef GRADSYNC_DECLARE

}  // namespace gradsync::ddp
