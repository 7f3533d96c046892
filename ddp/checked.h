#ifndef GRADSYNC_DDP_CHECKED_H_
#define GRADSYNC_DDP_CHECKED_H_

#include <memory>

#include "ddp/factory.h"

namespace gradsync::ddp {

// The strategy, which was made from `context`, behind checks that all strategies need: every parameter is
// ready exactly once between BeginStep and Finish, else std::logic_error; what check_gradients says; no
// scale that traits rule out. So strategies need not ask.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_CHECKED_H_
