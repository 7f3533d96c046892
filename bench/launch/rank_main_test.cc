#include "bench/launch/rank_main.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "bench/records/schema.h"
#include "bench/testing/unreachable_device.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"
#include "model/cuda_device.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

TEST(CountRanksWithTest, CountsEqualTexts) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    comm::ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    const model::DevicePtr device = model::CpuDevice();
    const std::string gpu = rank == 1 ? "GPU-1" : "GPU-10";
    EXPECT_EQ(CountRanksWith(group, device, gpu), rank == 1 ? 1 : 2);
    EXPECT_EQ(CountRanksWith(group, device, ""), 3);
    EXPECT_EQ(CountRanksOnGpu(group, device), 0);
  });
}

TEST(CountRanksWithTest, TakesNoLongTexts) {
  EXPECT_THROW(CountRanksWith(*LoneGroup(), model::CpuDevice(), std::string(64, 'x')), InvalidInput);
}

// Texts travel through memory that the host cannot touch.
TEST(RankMainTest, TextsOnAnotherDevice) {
  const auto group = LoneGroup();
  EXPECT_EQ(BroadcastText(*group, UnreachableDevice(), "20261121T101500-4f2a"), "20261121T101500-4f2a");
  EXPECT_EQ(CountRanksWith(*group, UnreachableDevice(), "GPU-1"), 1);
}

TEST(RankMainTest, ADeviceThatIsNotThereIsNamedWithItsFlag) {
  if (model::CudaDeviceCount() > 0) GTEST_SKIP() << "there is a GPU";
  RankOptions options;
  options.device = "cuda";
  for (const auto& ask : {+[](const RankOptions& o) { MakeDevice(o, {}); },
                          +[](const RankOptions& o) { CheckDevice(o, {}, {}); }}) {
    try {
      ask(options);
      ADD_FAILURE() << "no error";
    } catch (const InvalidInput& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("--device=cuda: CUDA device 0: "));
      EXPECT_THAT(error.what(), testing::AnyOf(testing::HasSubstr("no GPU that CUDA can use here ("),
                                               testing::HasSubstr("this program was built without CUDA")));
    }
  }
}

TEST(RankMainTest, RunsOverLinksOfDifferentRatesAreDifferentCells) {
  const auto rate = [] {
    Fields config;
    SetRankConfig(RankOptions(), "gloo", config);
    return config.IntOr("link_rate", -1);
  };
  EXPECT_EQ(rate(), -1);
  setenv("GRADSYNC_LINK_RATE", "200000000", 1);
  EXPECT_EQ(rate(), 200'000'000);
  unsetenv("GRADSYNC_LINK_RATE");
  EXPECT_EQ(ScopeOf("link_rate", {}), Scope::kCell);
}

}  // namespace
}  // namespace gradsync::bench
