#pragma once

#include <memory>

#include "ddp/interface/context.h"
#include "ddp/strategy_list.h"

namespace gradsync::ddp {

// Each file in strategies/ defines one strategy, in a namespace that has the strategy's name: kTraits has its
// properties, and Make makes it.
#define GRADSYNC_DECLARE(name)                                    \
  namespace name {                                                \
  extern const Traits kTraits;                                    \
  std::unique_ptr<Strategy> Make(const StrategyContext& context); \
  }
GRADSYNC_STRATEGIES(GRADSYNC_DECLARE)
#undef GRADSYNC_DECLARE

}  // namespace gradsync::ddp
