#pragma once

#include <memory>

#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Wraps `strategy`, which was made from `context`, with checks:
// - OnGradReady, EndPass and Finish throw std::logic_error unless every parameter's gradient is ready exactly
//   once between a call of BeginStep or EndPass and the next call of EndPass or Finish.
// - If StrategyOptions::check_gradients is set, OnGradReady throws std::runtime_error if it finds NaN or
//   infinity in the gradient.
// - Update throws InvalidInput if grad_scale is not 1 and Traits::can_clip is false.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context);

}  // namespace gradsync::ddp
