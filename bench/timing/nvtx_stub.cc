#include "bench/timing/nvtx.h"
#include "model/base/error.h"

namespace gradsync::bench {

bool HaveNvtx() { return false; }

std::unique_ptr<RangeSink> MakeNvtxSink() {
  throw InvalidInput("NVTX ranges: this program was built without CUDA's toolkit, which has NVTX");
}

}  // namespace gradsync::bench
