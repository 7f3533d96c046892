#pragma once

#include <memory>

#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Wraps `strategy`, which was made from `context`, with checks: throws std::logic_error unless every
// parameter's gradient is ready exactly once in each pass, looks for NaN and infinity in gradients if
// StrategyOptions::check_gradients is set, and throws InvalidInput for a grad_scale that Traits::can_clip
// forbids.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context);

}  // namespace gradsync::ddp
