#ifndef GRADSYNC_BENCH_TIMING_PEAKS_H_
#define GRADSYNC_BENCH_TIMING_PEAKS_H_

#include <string>

#include "bench/timing/op_cost.h"
#include "model/device.h"
#include "model/dtype.h"

namespace gradsync::bench {

// Peaks, and where they are from: "a copy of 256 MiB" where they were measured, or "given".
struct KnownPeaks {
  Peaks peaks;
  std::string flops_source, bytes_source;
};

// What the device reaches when nothing else is asked of it, the best of several: a large product of square
// matrices of `dtype` (f32, f64 or bf16), and whichever is faster of a large copy and of the same with a
// multiplication, each with the kernels that training has, and with the threads of the device. Takes about
// two seconds, and gives its memory back.
KnownPeaks MeasurePeaks(const model::DevicePtr& device, model::DType dtype);

// "105 GFLOP/s (...) and 11.8 GB/s (...)".
std::string ToString(const KnownPeaks& peaks);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_PEAKS_H_
