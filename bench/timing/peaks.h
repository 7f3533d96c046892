#ifndef GRADSYNC_BENCH_TIMING_PEAKS_H_
#define GRADSYNC_BENCH_TIMING_PEAKS_H_

#include <string>

#include "bench/timing/op_cost.h"
#include "model/device.h"
#include "model/dtype.h"

namespace gradsync::bench {

// What a device does per second at best, and where that is from: "a copy of 256 MiB" where it was measured,
// or "given".
struct Peak {
  double per_second = 0;
  std::string source;
};

// Floating-point operations of `dtype`: f32, f64 or bf16. Of the CPU as many threads as the device has do
// independent multiplications with additions in registers, in the widest vectors that the processor has (of
// f32 for bf16); of a GPU it is the product of large square matrices by the vendor's library. The best of
// several; takes a quarter of a second. To be called on all ranks of a host at once, because they compute at
// once.
Peak MeasureFlops(const model::DevicePtr& device, model::DType dtype);

// Bytes that are read and written: whichever is faster of a large copy and of the same with a multiplication.
// Takes about a second, and gives its memory back.
Peak MeasureBandwidth(const model::DevicePtr& device);

// Both, of one rank.
struct KnownPeaks {
  Peaks peaks;
  std::string flops_source, bytes_source;
};

// "105 GFLOP/s (...) and 11.8 GB/s (...)".
std::string ToString(const KnownPeaks& peaks);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_PEAKS_H_
