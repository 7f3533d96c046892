#pragma once

#include <cstdint>
#include <span>

namespace gradsync::bench {

// A span of time in which a rank waited for a collective, on the host's steady clock. These spans are known
// only if the CPU computes, because the host does not see what a GPU waits for.
struct StepWait {
  int64_t sequence = 0;  // number of the collective, as in the log of its process group
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // True if StepTimes::waits(), the sum of a step's waits, includes the time from begin_ns to end_ns. waits()
  // leaves out two kinds of waits: those in the strategy's BeginStep, which count as begin_step, and those
  // for the broadcast of buffers, which count as forward.
  bool is_counted = true;
};

// Returns the length in ns of the interval [begin_ns, end_ns), minus the parts of the interval that are
// inside `waits` whose is_counted is true. The waits whose is_counted is true must not overlap each other.
int64_t WithoutWaitsNs(int64_t begin_ns, int64_t end_ns, std::span<const StepWait> waits);

}  // namespace gradsync::bench
