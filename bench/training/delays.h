#ifndef GRADSYNC_BENCH_TRAINING_DELAYS_H_
#define GRADSYNC_BENCH_TRAINING_DELAYS_H_

#include <cstdint>

namespace gradsync::bench {

// Known effects: how long every rank computes nothing of use in each step, at the end of which a step is so
// much longer. In a hook, communication may go on meanwhile, and the step may be longer by less.
struct Delays {
  int64_t forward_ns = 0;  // before forward
  int64_t hook_ns = 0;     // in the last hook of backward
  int64_t wait_ns = 0;     // when the strategy has waited for its last collective

  int64_t total_ns() const { return forward_ns + hook_ns + wait_ns; }
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_DELAYS_H_
