#include "bench/training/stop_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;

// Ten rounds; the difference is 100 +- 10 in turn: its standard error is 10 / 3, Student's quantile 2.262.
StepTimes Paired() {
  StepTimes steps_ns(2);
  for (int i = 0; i < 10; ++i) {
    // What both have in common does not count.
    const int64_t drift = 200 * i;
    steps_ns[0].push_back(drift);
    steps_ns[1].push_back(drift + 100 + (i % 2 == 0 ? 10 : -10));
  }
  return steps_ns;
}

TEST(IsPreciseEnoughTest, ComparesHalfThePairedIntervalWithThePrecision) {
  const StepTimes steps_ns = Paired();  // the first one's mean is 900
  const double half_width = 2.262 * 10 / 3 / 900;
  EXPECT_TRUE(IsPreciseEnough(steps_ns, half_width * 1.01));
  EXPECT_FALSE(IsPreciseEnough(steps_ns, half_width * 0.99));
}

TEST(IsPreciseEnoughTest, EachDifferenceCountsAndTwoRoundsSayNothing) {
  StepTimes steps_ns = Paired();
  steps_ns.push_back(steps_ns.front());
  EXPECT_TRUE(IsPreciseEnough(steps_ns, 0.02));
  steps_ns.back().back() += 5000;
  EXPECT_FALSE(IsPreciseEnough(steps_ns, 0.02));
  EXPECT_FALSE(IsPreciseEnough({{10, 10}, {10, 10}}, 0.02));
  EXPECT_TRUE(IsPreciseEnough({{10, 10, 10}, {10, 10, 10}}, 0.02));
}

// So many rounds are taken, on two ranks, if variant 1's step is `noise_ns` off in every other round, on rank
// 1 alone.
int64_t Rounds(StopRule rule, int64_t noise_ns) {
  auto groups = comm::MakeGroups("local", 2);
  std::vector<int64_t> rounds(2);
  std::vector<StopRule> rules(2, rule);
  comm::RunRanks(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    const model::DevicePtr device = model::CpuDevice();
    bool is_last = false;
    while (!is_last) {
      const int64_t off_ns = rank == 1 && rounds[r] % 2 == 0 ? noise_ns : 0;
      is_last = rules[r].IsLast({1000, 1200 + off_ns}, *groups[r], device);
      ++rounds[r];
    }
  });
  EXPECT_EQ(rounds[0], rounds[1]);
  return rounds[0];
}

TEST(StopRuleTest, WithoutAPrecisionTheRoundsAreCounted) {
  EXPECT_EQ(Rounds(StopRule(7, 100, std::nullopt), 1'000'000), 7);
}

TEST(StopRuleTest, GoesOnUntilAllRanksKnowEnough) {
  EXPECT_EQ(Rounds(StopRule(7, 100, 0.02), 0), 7);
  // Half the width is about noise / sqrt(rounds).
  const int64_t rounds = Rounds(StopRule(5, 100, 0.02), 100);
  EXPECT_GT(rounds, 20);
  EXPECT_LT(rounds, 40);
  EXPECT_EQ(rounds % 5, 0);
}

TEST(StopRuleTest, StopsAtTheLast) {
  EXPECT_EQ(Rounds(StopRule(5, 13, 0.02), 1'000'000), 13);
  EXPECT_EQ(Rounds(StopRule(5, 3, 0.02), 1'000'000), 3);
}

TEST(MaxOverRanksTest, IsTheSlowestOnes) {
  auto groups = comm::MakeGroups("local", 2);
  comm::RunRanks(2, [&](int rank) {
    const StepTimes own = {{1 + rank, 5 - rank}, {7}};
    const StepTimes slowest = MaxOverRanks(own, *groups[static_cast<size_t>(rank)], model::CpuDevice());
    EXPECT_THAT(slowest, ElementsAre(ElementsAre(2, 5), ElementsAre(7)));
  });
}

}  // namespace
}  // namespace gradsync::bench
