#include "bench/training/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

TEST(DisturbanceTest, BusyIsAllThatIsNotIdle) {
  std::istringstream text("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 2 4 1000 2000 8 16 32 64 128\n");
  // Guests' time, which comes last, is in the user's.
  EXPECT_EQ(HostBusyNs(text), 63 * (int64_t{1'000'000'000} / sysconf(_SC_CLK_TCK)));
  std::istringstream empty(""), zeros("cpu  0 0 0 0 0 0 0 0 0 0\n"), other("intr 1 2 3 4 5 6 7 8\n");
  EXPECT_EQ(HostBusyNs(empty), std::nullopt);
  EXPECT_EQ(HostBusyNs(zeros), std::nullopt);
  EXPECT_EQ(HostBusyNs(other), std::nullopt);
}

// The first rank has what the host used less its own, the others what they used themselves: negative.
TEST(DisturbanceTest, OthersAreTheHostLessAllRanks) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    Disturbance disturbance(*groups[static_cast<size_t>(rank)], model::CpuDevice(), "host");
    disturbance.NowNs();
    const std::vector<std::vector<int64_t>> terms = {{900, 70}, {-200, -10}, {-100, -80}};
    EXPECT_THAT(disturbance.OthersNs(terms[static_cast<size_t>(rank)]), ::testing::ElementsAre(600, -20));
  });
}

// Rank 2 is alone on its host: what ranks 0 and 1 use elsewhere is none of it.
TEST(DisturbanceTest, EachHostHasItsOwnRanks) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    Disturbance disturbance(*groups[static_cast<size_t>(rank)], model::CpuDevice(), rank < 2 ? "a" : "b");
    const std::vector<int64_t> terms = {900, -200, 500};
    EXPECT_THAT(disturbance.OthersNs({terms[static_cast<size_t>(rank)]}),
                ::testing::ElementsAre(rank < 2 ? 700 : 500));
  });
}

}  // namespace
}  // namespace gradsync::bench
