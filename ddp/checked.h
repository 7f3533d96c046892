#pragma once

#include <memory>

#include "ddp/interface/context.h"

namespace gradsync::ddp {

// Returns a strategy that passes each call on to `strategy`, and throws an exception if a check of the call's
// order, arguments or gradient fails. The caller must have made `strategy` for the parameters, process group
// and options of `context`. `traits` are the traits of `strategy`, and must outlive the returned strategy.
// The checks are:
// - OnGradReady throws std::logic_error for a parameter that is not in context.params. OnGradReady also
//   throws std::logic_error if it is called before the first BeginStep, or twice for a parameter since the
//   last BeginStep or EndPass.
// - After the first BeginStep, EndPass and Finish throw std::logic_error unless OnGradReady was called for
//   all parameters since the last BeginStep or EndPass.
// - If StrategyOptions::check_gradients is set, OnGradReady throws std::runtime_error if it finds NaN or
//   infinity in the gradient.
// - Update throws InvalidInput if grad_scale is not 1 and Traits::can_clip is false.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context);

}  // namespace gradsync::ddp
