#pragma once

#include <memory>

#include "bench/timing/range_sink.h"

namespace gradsync::bench {

// Returns whether this program can make NVTX ranges (NVIDIA's annotations for profilers). HaveNvtx() is true
// if the build found a CUDA toolkit with NVTX's headers, and either a GPU or the environment variable
// CUDA_ARCHITECTURES.
bool HaveNvtx();

// Returns a RangeSink that makes an NVTX range for each range that is reported to it. The NVTX ranges are in
// NVTX's domain "gradsync", with a category for each RangeKind. Nsight Systems (`nsys profile`) shows the
// NVTX ranges; without a profiler they have no effect. Throws InvalidInput if the build has no NVTX.
std::unique_ptr<RangeSink> MakeNvtxSink();

}  // namespace gradsync::bench
