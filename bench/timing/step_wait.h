#pragma once

#include <cstdint>
#include <span>

namespace gradsync::bench {

// A time in which a rank waited for a collective in a step, by the clock of comm::Now(). Single waits are
// known on the CPU only, because the host does not see what a GPU waits for.
struct StepWait {
  int64_t sequence = 0;  // of the collective, as in the log of its group
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // Whether the wait is a part of StepTimes::waits(). Waits in BeginStep are a part of BeginStep, and waits
  // of the broadcast of buffers are a part of forward.
  bool is_counted = true;
};

// Returns the part of [begin_ns, end_ns) without the counted waits in it.
int64_t WithoutWaitsNs(int64_t begin_ns, int64_t end_ns, std::span<const StepWait> waits);

}  // namespace gradsync::bench
