#include "tools/predict/network.h"

#include <gtest/gtest.h>

namespace gradsync::tools {
namespace {

using enum CollectiveKind;

// 2 hosts of 4 ranks; bytes a second and seconds that are easy to count with.
Network TwoHosts(Algorithm algorithm) {
  return {.world_size = 8,
          .ranks_per_host = 4,
          .between = {100, 0.5},
          .within = {1000, 0.01},
          .algorithm = algorithm};
}

TEST(NetworkTest, ReadsARateAndALatency) {
  EXPECT_DOUBLE_EQ(ParseWire("100Gbit,5us")->bytes_per_second, 12.5e9);
  EXPECT_DOUBLE_EQ(ParseWire("100Gbit,5us")->latency_s, 5e-6);
  EXPECT_DOUBLE_EQ(ParseWire("200Mbit,1ms")->bytes_per_second, 25e6);
  EXPECT_DOUBLE_EQ(ParseWire("200Mbit,1ms")->latency_s, 1e-3);
  EXPECT_DOUBLE_EQ(ParseWire("1Gbit")->latency_s, 5e-6);
  for (const char* const text : {"", "100", "100Gbit,", "100Gbit,5", "100Gbit,5us,6us", "-1Gbit", "5us"})
    EXPECT_FALSE(ParseWire(text).has_value()) << text;
}

TEST(NetworkTest, ARingPassesAllRanksTwice) {
  // 7 hops of 1/8 of 800 bytes over the slower wire, to reduce and to gather.
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kRing), kAllReduce, 800), 2 * 7 * (0.5 + 1));
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kRing), kReduceScatter, 800), 7 * (0.5 + 1));
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kRing), kAllGather, 800), 7 * (0.5 + 1));
}

TEST(NetworkTest, ATreeGoesUpAndDownOnce) {
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kTree), kAllReduce, 800), 2 * (0.5 + 2 * 0.01 + 8));
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kTree), kAllGather, 800), 7 * (0.5 + 1));
}

TEST(NetworkTest, HierarchicalIsARingWithinAndOneBetween) {
  // 3 hops of 200 bytes within, one of 400 between, each way.
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kHierarchical), kAllReduce, 800),
                   2 * (3 * (0.01 + 0.2) + 0.5 + 4));
  EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kHierarchical), kReduceScatter, 800),
                   3 * (0.01 + 0.2) + 0.5 + 4);
}

TEST(NetworkTest, TheBestIsTakenUnlessOneIsAskedFor) {
  for (const double bytes : {1.0, 800.0, 1e6}) {
    double least = 1e300;
    for (const Algorithm one : {Algorithm::kRing, Algorithm::kTree, Algorithm::kHierarchical})
      least = std::min(least, CollectiveSeconds(TwoHosts(one), kAllReduce, bytes));
    EXPECT_DOUBLE_EQ(CollectiveSeconds(TwoHosts(Algorithm::kBest), kAllReduce, bytes), least);
  }
}

TEST(NetworkTest, OneHostUsesItsOwnWires) {
  Network one = TwoHosts(Algorithm::kRing);
  one.world_size = 4;
  EXPECT_DOUBLE_EQ(CollectiveSeconds(one, kAllReduce, 800), 2 * 3 * (0.01 + 0.2));
  one.world_size = 1;
  EXPECT_DOUBLE_EQ(CollectiveSeconds(one, kAllReduce, 800), 0);
}

TEST(NetworkTest, CostsAreThoseTimesAndUseProcessorsByTheByte) {
  const Network network = TwoHosts(Algorithm::kRing);
  const LinkCosts costs = CostsOver(network, 1e-3);
  for (const double bytes : {1024.0, 3000.0, 5e6})
    EXPECT_NEAR(costs.Seconds(kAllReduce, bytes) / CollectiveSeconds(network, kAllReduce, bytes), 1, 1e-9);
  EXPECT_NEAR(costs.Processor(kAllReduce, 4096, 1),
              1e-3 * 4096 / CollectiveSeconds(network, kAllReduce, 4096), 1e-9);
}

TEST(NetworkTest, ARingOfMoreRanksHasMoreHopsOfFewerBytes) {
  Network two = TwoHosts(Algorithm::kRing), eight = two;
  two.world_size = 2;
  two.ranks_per_host = eight.ranks_per_host = 1;
  const LinkCosts scaled = InRingOf(CostsOver(two, 0), 2, 8);
  for (const double bytes : {1024.0, 1e6}) {
    EXPECT_NEAR(scaled.Seconds(kAllReduce, bytes) / CollectiveSeconds(eight, kAllReduce, bytes), 1, 1e-9);
    EXPECT_NEAR(scaled.Seconds(kAllGather, bytes) / CollectiveSeconds(eight, kAllGather, bytes), 1, 1e-9);
  }
}

}  // namespace
}  // namespace gradsync::tools
