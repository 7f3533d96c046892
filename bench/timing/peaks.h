#ifndef GRADSYNC_BENCH_TIMING_PEAKS_H_
#define GRADSYNC_BENCH_TIMING_PEAKS_H_

#include <string>

#include "model/device.h"
#include "model/dtype.h"

namespace gradsync::bench {

// What a device does per second at best, and how that was measured: "a product of f32 matrices, side 1024".
struct Peak {
  double per_second = 0;
  std::string source;
};

// Floating-point operations: the fastest of several products of large square matrices of `dtype` (on the CPU
// of f32 for bf16), in a quarter of a second. To be called on all ranks of a host at once, because they
// compute at once.
Peak MeasureFlops(const model::DevicePtr& device, model::DType dtype);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_PEAKS_H_
