#include "bench/timing/step_wait.h"

#include <algorithm>

namespace gradsync::bench {

int64_t WithoutWaitsNs(int64_t begin_ns, int64_t end_ns, std::span<const StepWait> waits) {
  int64_t left_ns = end_ns - begin_ns;
  for (const StepWait& wait : waits) {
    const int64_t from_ns = std::max(begin_ns, wait.begin_ns);
    const int64_t to_ns = std::min(end_ns, wait.end_ns);
    if (wait.is_counted && from_ns < to_ns) left_ns -= to_ns - from_ns;
  }
  return left_ns;
}

}  // namespace gradsync::bench
