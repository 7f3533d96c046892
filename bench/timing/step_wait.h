#pragma once

#include <cstdint>
#include <span>

namespace gradsync::bench {

// A span of time in which a rank waited for a collective, on the host's steady clock. Known only if the CPU
// computes, because the host does not see what a GPU waits for.
struct StepWait {
  int64_t sequence = 0;  // number of the collective, as in the log of its process group
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // Whether StepTimes::waits() includes this wait. It does not include waits in the strategy's BeginStep (a
  // part of begin_step) and waits for the broadcast of buffers (a part of forward).
  bool is_counted = true;
};

// Returns the length of the interval [begin_ns, end_ns) minus the time of the waits in it, if is_counted.
int64_t WithoutWaitsNs(int64_t begin_ns, int64_t end_ns, std::span<const StepWait> waits);

}  // namespace gradsync::bench
