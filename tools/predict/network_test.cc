#include "tools/predict/network.h"

#include <gtest/gtest.h>

#include "model/error.h"

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

TEST(NetworkTest, AHostThatIsNotFullIsOneMore) {
  // 9 ranks on hosts of 8 are on two hosts, as 16 are: all bytes pass between them.
  const auto seconds = [](int64_t ranks) {
    return CollectiveSeconds({ranks, 8, {100, 0.5}, {1e12, 1e-9}, Algorithm::kHierarchical}, kAllReduce, 800);
  };
  EXPECT_NEAR(seconds(8), 0, 1e-6);
  for (const int64_t ranks : {9, 12, 16}) EXPECT_NEAR(seconds(ranks), 2 * (0.5 + 4), 1e-6) << ranks;
}

TEST(NetworkTest, CostsAreThoseTimes) {
  const Network network = TwoHosts(Algorithm::kRing);
  const LinkCosts costs = CostsOver(network);
  for (const double bytes : {1024.0, 3000.0, 5e6})
    EXPECT_NEAR(costs.Seconds(kAllReduce, bytes) / CollectiveSeconds(network, kAllReduce, bytes), 1, 1e-9);
  EXPECT_EQ(costs.Processor(kAllReduce, 4096, 1), 0);
}

TEST(NetworkTest, ProcessorsAreUsedByTheByteThatARankSends) {
  // 1e-3 CPU-seconds for each byte of an all-reduce: between 2 ranks as many are sent, between 8 1.75 times.
  const MeasuredLink two{LinkCosts({{.bytes = 1024, .seconds = 2.048, .processor = 0.5}}), 2};
  const auto used = [](const MeasuredLink& recorded, int64_t ranks, CollectiveKind kind) {
    const LinkCosts costs = CostsOver({ranks, 1, {1e3, 1e-9}, {}, Algorithm::kRing}, recorded);
    return costs.Processor(kind, 4096, 1) * costs.Seconds(kind, 4096) / 4096;
  };
  EXPECT_NEAR(used(two, 2, kAllReduce), 1e-3, 1e-9);
  EXPECT_NEAR(used(two, 8, kAllReduce), 1.75e-3, 1e-9);
  EXPECT_NEAR(used({two.costs, 8}, 2, kAllReduce), 1e-3 / 1.75, 1e-9);
  // Half of an all-reduce, unless it is known.
  EXPECT_NEAR(used(two, 2, kReduceScatter), 0.5e-3, 1e-9);
  EXPECT_NEAR(used(two, 8, kAllGather), 0.875e-3, 1e-9);
  const MeasuredLink known{
      LinkCosts({{.bytes = 1024, .seconds = 2.048, .processor = 0.5},
                 {.kind = kAllGather, .bytes = 1024, .seconds = 1.024, .processor = 0.7}}),
      2};
  EXPECT_NEAR(used(known, 2, kReduceScatter), 0.5e-3, 1e-9);
  EXPECT_NEAR(used(known, 2, kAllGather), 0.7e-3, 1e-9);
  // 2048 bytes are sent, each of which takes 1.4e-3 CPU-seconds beside its time on the wire.
  EXPECT_NEAR(CostsOver({2, 1, {1e3, 1e-9}, {}, Algorithm::kRing}, known).Seconds(kAllGather, 4096),
              2048 * (1514.0 / 1448 * 1e-3 + 1.4e-3), 1e-6);
}

TEST(NetworkTest, APlaceHasItsWireOrItsLinkOrWhatWasRecorded) {
  const MeasuredLink recorded{LinkCosts({{.bytes = 1024, .seconds = 3, .processor = 0.5}}), 2},
      other{LinkCosts({{.bytes = 1024, .seconds = 7, .processor = 0.25}}), 4};
  const auto at = [&](const Place& place) { return CostsAt(place, recorded); };
  EXPECT_DOUBLE_EQ(at({.world_size = 2}).Seconds(kAllReduce, 1024), 3);
  // 3 hops in place of 1, of half the bytes.
  EXPECT_DOUBLE_EQ(at({.world_size = 4}).Seconds(kAllReduce, 2048), 9);
  EXPECT_DOUBLE_EQ(at({.world_size = 4, .link = other}).Seconds(kAllReduce, 1024), 7);
  EXPECT_DOUBLE_EQ(at({.world_size = 4, .link = other}).Processor(kAllReduce, 1024, 1), 0.25);
  // Over a wire a byte takes as much of processors as where it was recorded.
  const Place over_wire{.world_size = 2, .wire = Wire{1024, 1}, .link = other};
  const double bytes_s = 512 * (1514.0 / 1448 / 1024 + 3 * 0.5 / 1024);  // on the wire, and on the processor
  EXPECT_DOUBLE_EQ(at(over_wire).Seconds(kAllReduce, 1024), 2 * (1 + bytes_s));
  EXPECT_DOUBLE_EQ(at(over_wire).Processor(kAllReduce, 1024, 1), 1.5 / (2 * (1 + bytes_s)));
  // Without use of processors nothing is known of the frames.
  EXPECT_DOUBLE_EQ(CostsAt(over_wire, MeasuredLink{LinkCosts({{.bytes = 1024, .seconds = 3}}), 2})
                       .Seconds(kAllReduce, 1024),
                   2 * (1 + 0.5));
  EXPECT_DOUBLE_EQ(at({.world_size = 2, .processor = 0.125}).Processor(kAllReduce, 1024, 1), 0.125);
  EXPECT_EQ(CostsAt(over_wire, std::nullopt).Processor(kAllReduce, 1024, 1), 0);
  EXPECT_THROW(CostsAt({.world_size = 2}, std::nullopt), InvalidInput);
  EXPECT_THROW(at({.world_size = 1}), InvalidInput);
  EXPECT_THROW(at({.world_size = 1, .wire = Wire{1024, 1}}), InvalidInput);
}

TEST(NetworkTest, ARingOfMoreRanksHasMoreHopsOfFewerBytes) {
  Network two = TwoHosts(Algorithm::kRing), eight = two;
  two.world_size = 2;
  two.ranks_per_host = eight.ranks_per_host = 1;
  const LinkCosts scaled = InRingOf(CostsOver(two), 2, 8);
  for (const double bytes : {1024.0, 1e6}) {
    EXPECT_NEAR(scaled.Seconds(kAllReduce, bytes) / CollectiveSeconds(eight, kAllReduce, bytes), 1, 1e-9);
    EXPECT_NEAR(scaled.Seconds(kAllGather, bytes) / CollectiveSeconds(eight, kAllGather, bytes), 1, 1e-9);
  }
}

}  // namespace
}  // namespace gradsync::tools
