#ifndef GRADSYNC_BENCH_TIMING_PEAKS_H_
#define GRADSYNC_BENCH_TIMING_PEAKS_H_

#include <string>

#include "bench/timing/op_cost.h"
#include "model/device.h"
#include "model/dtype.h"

namespace gradsync::bench {

// What a device does per second at best, and how that was measured: "a copy of 256 MiB".
struct Peak {
  double per_second = 0;
  std::string source;
};

// Floating-point operations: the fastest of several products of large square matrices of `dtype` (on the CPU
// of f32 for bf16), in a quarter of a second. To be called on all ranks of a host at once, because they
// compute at once.
Peak MeasureFlops(const model::DevicePtr& device, model::DType dtype);

// Bytes that are read and written: whichever is faster of a large copy and of the same with a multiplication.
// Takes about a second, and gives its memory back.
Peak MeasureBandwidth(const model::DevicePtr& device);

struct Peaks {
  Peak flops, bandwidth;
};

// The time that an operation takes at least: its arithmetic's or its bytes', whichever takes longer.
double LimitNs(const OpCost& cost, const Peaks& peaks);

// "105 GFLOP/s (...) and 11.8 GB/s (...)".
std::string ToString(const Peaks& peaks);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_PEAKS_H_
