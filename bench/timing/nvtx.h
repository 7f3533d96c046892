#pragma once

#include <memory>

#include "bench/timing/range_sink.h"

namespace gradsync::bench {

// False in a build without the CUDA toolkit, which NVTX's headers come with.
bool HaveNvtx();

// NVTX ranges in the domain "gradsync", with a category for each kind: what Nsight Systems (`nsys profile`)
// shows beside the CPU's and the GPU's own rows. NVTX has no library: without a profiler that asks for them
// the calls do nothing. Throws InvalidInput in a build without NVTX.
std::unique_ptr<RangeSink> MakeNvtxSink();

}  // namespace gradsync::bench
