#pragma once

#include <cstdint>
#include <span>

namespace gradsync::bench {

// A span of time in which a rank waited for a collective, by the host's steady clock.
struct StepWait {
  int64_t sequence = 0;  // number of the collective, as in the log of its process group
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  // False for waits in BeginStep and in the broadcast of buffers; the sum StepTimes::waits() leaves them out.
  bool is_counted = true;
};

// Returns how many ns of the interval [begin_ns, end_ns) are outside all waits whose is_counted is true.
// Waits whose is_counted is true must not overlap.
int64_t WithoutWaitsNs(int64_t begin_ns, int64_t end_ns, std::span<const StepWait> waits);

}  // namespace gradsync::bench
