#ifndef GRADSYNC_DDP_CHECKED_H_
#define GRADSYNC_DDP_CHECKED_H_

#include <cstdint>
#include <memory>

#include "ddp/factory.h"

namespace gradsync::ddp {

// Measures how long a rank waits for collectives.
class WaitClock : public comm::GroupDecorator {
 public:
  using GroupDecorator::GroupDecorator;

  comm::Work Issue(comm::Request request) override;
  int64_t waited_ns() const { return waited_ns_; }

 private:
  class Timed;
  int64_t waited_ns_ = 0;
};

// The strategy, which was made from `context`, behind checks that all strategies need: every parameter is
// ready exactly once between BeginStep and Finish, else std::logic_error; what check_gradients says; no
// scale that traits rule out. So strategies need not ask. `clock`: the group that it was made with.
std::unique_ptr<Strategy> Checked(const Traits& traits, std::unique_ptr<Strategy> strategy,
                                  const StrategyContext& context, std::unique_ptr<WaitClock> clock);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_CHECKED_H_
