#include "bench/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "bench/records/host.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PlacementTest, RanksShareNoCpu) {
  const std::vector<int> cpus = {0, 1, 2, 3, 8, 9, 10};
  const Placement first = PlanPlacement(cpus, 0, 2, 2);
  EXPECT_THAT(first.compute_cpus, ElementsAre(0, 1));
  EXPECT_THAT(first.communication_cpus, ElementsAre(8, 10));
  const Placement second = PlanPlacement(cpus, 1, 2, 2);
  EXPECT_THAT(second.compute_cpus, ElementsAre(2, 3));
  EXPECT_THAT(second.communication_cpus, ElementsAre(9));
}

TEST(PlacementTest, CommunicationStaysUnpinnedWithoutSpareCpus) {
  const std::vector<int> cpus = {0, 1, 2};
  EXPECT_THAT(PlanPlacement(cpus, 1, 2, 1).compute_cpus, ElementsAre(1));
  EXPECT_THAT(PlanPlacement(cpus, 1, 2, 1).communication_cpus, IsEmpty());
}

TEST(PlacementTest, TooFewCpusIsOneClearLine) {
  const std::vector<int> cpus = {0, 1, 2};
  try {
    PlanPlacement(cpus, 0, 2, 2);
    FAIL() << "accepted";
  } catch (const InvalidInput& error) {
    EXPECT_STREQ(error.what(), "--placement=pin: 2 ranks of 2 threads need 4 CPUs, this process may use 3");
  }
}

// A launcher may bind ranks, and hosts may be parts of one machine.
TEST(PlacementTest, RanksShareCpusWithThoseThatMayUseTheSame) {
  const std::vector<AllowedOfRank> ranks = {{"a", {0, 1}}, {"b", {0, 1}}, {"a", {2}},
                                            {"a", {0, 1}}, {"a", {2}},    {"a", {0, 1}}};
  const auto expect = [&](int rank, int place, int count) {
    const Sharers sharers = SharersOf(ranks, rank);
    EXPECT_EQ(sharers.place, place) << rank;
    EXPECT_EQ(sharers.count, count) << rank;
  };
  expect(0, 0, 3);
  expect(1, 0, 1);
  expect(2, 0, 2);
  expect(3, 1, 3);
  expect(4, 1, 2);
  expect(5, 2, 3);
}

TEST(PlacementTest, SomeCpusInCommonAreRefused) {
  const std::vector<AllowedOfRank> ranks = {{"a", {0, 1}}, {"a", {1, 2}}, {"b", {1}}};
  for (const int rank : {0, 1}) {
    try {
      SharersOf(ranks, rank);
      ADD_FAILURE() << "accepted";
    } catch (const InvalidInput& error) {
      EXPECT_STREQ(error.what(),
                   rank == 0
                       ? "--placement=pin: ranks 0 and 1 may use CPUs 0,1 and 1,2 of one machine, expected "
                         "the same, or none in common"
                       : "--placement=pin: ranks 1 and 0 may use CPUs 1,2 and 0,1 of one machine, expected "
                         "the same, or none in common");
    }
  }
  EXPECT_EQ(SharersOf(ranks, 2).count, 1);
}

TEST(PlacementTest, ARankRunsWhereItIsPinned) {
  const std::vector<int> all = AllowedCpus();
  if (all.size() < 2) GTEST_SKIP() << "one CPU";
  std::thread([&] {
    RankOptions options;
    options.placement = "pin";
    const ThreadPlacement placement(options, {});
    const std::vector<int> first = {all[0]}, others(all.begin() + 1, all.end());
    EXPECT_EQ(placement.placement().compute_cpus, first);
    EXPECT_EQ(placement.all_cpus(), all);
    EXPECT_EQ(AllowedCpus(), first);
    placement.StartCommunication([&] { EXPECT_EQ(AllowedCpus(), others); });
    EXPECT_EQ(AllowedCpus(), first);
  }).join();
}

TEST(PlacementTest, ThreadsInheritTheirCpus) {
  const int last = AllowedCpus().back();
  std::thread([last] {
    RunOnCpus(std::vector<int>{last});
    std::thread([last] { EXPECT_THAT(AllowedCpus(), ElementsAre(last)); }).join();
  }).join();
}

}  // namespace
}  // namespace gradsync::bench
