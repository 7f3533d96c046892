#pragma once

#include <memory>

#include "bench/timing/range_sink.h"

namespace gradsync::bench {

// Returns false in a build without the CUDA toolkit, which has NVTX's headers.
bool HaveNvtx();

// Returns a sink that makes NVTX ranges in the domain "gradsync", with a category for each kind. Nsight
// Systems (`nsys profile`) shows these ranges in rows of their own. NVTX has no library: without a profiler
// the calls do nothing. Throws InvalidInput in a build without NVTX.
std::unique_ptr<RangeSink> MakeNvtxSink();

}  // namespace gradsync::bench
