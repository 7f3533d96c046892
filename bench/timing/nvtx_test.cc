#include "bench/timing/nvtx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

// What bench/testing/nvtx_injection.cc has logged, without the thread at the begin of each line.
std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line.substr(line.find(' ') + 1));
  return lines;
}

TEST(NvtxTest, WithoutTheToolkitItIsRefused) {
  if (HaveNvtx()) GTEST_SKIP() << "built with NVTX";
  EXPECT_THROW(MakeNvtxSink(), InvalidInput);
}

TEST(NvtxTest, AProfilerSeesNamedRangesInTheDomain) {
  if (!HaveNvtx()) GTEST_SKIP() << "built without NVTX";
  const std::string log = testing::TempDir() + "/nvtx";
  ASSERT_EQ(setenv("NVTX_INJECTION64_PATH", "bench/testing/nvtx_injection.so", 1), 0);
  ASSERT_EQ(setenv("NVTX_LOG", log.c_str(), 1), 0);
  const auto sink = MakeNvtxSink();
  sink->Push(RangeKind::kPhase, "backward");
  sink->Push(RangeKind::kOp, "linear");
  const uint64_t range = sink->Start(RangeKind::kCollective, "all_reduce 8 bytes");
  sink->Pop();
  sink->Pop();
  sink->Stop(range);
  EXPECT_THAT(Lines(log + "." + std::to_string(getpid())),
              testing::ElementsAre("domain gradsync", "category 1 step", "category 2 phase", "category 3 op",
                                   "category 4 collective", "push 2 backward", "push 3 linear",
                                   "start 1 4 all_reduce 8 bytes", "pop", "pop", "end 1"));
}

}  // namespace
}  // namespace gradsync::bench
