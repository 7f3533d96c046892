#include "bench/timing/schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace gradsync::bench {
namespace {

TEST(InterleavedScheduleTest, EveryRoundRunsEveryConfigurationOnce) {
  const std::vector<ScheduledStep> steps = InterleavedSchedule(7, 3, 20, 1);
  ASSERT_EQ(steps.size(), 7u * 23u);
  for (size_t round = 0; round < 23; ++round) {
    std::set<int> seen;
    for (size_t i = 0; i < 7; ++i) {
      const ScheduledStep& step = steps[7 * round + i];
      EXPECT_EQ(step.round, static_cast<int64_t>(round));
      EXPECT_EQ(step.warmup, round < 3);
      seen.insert(step.config);
    }
    EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4, 5, 6}));
  }
}

TEST(InterleavedScheduleTest, IsAFunctionOfTheSeed) {
  EXPECT_EQ(InterleavedSchedule(5, 2, 10, 42), InterleavedSchedule(5, 2, 10, 42));
  EXPECT_NE(InterleavedSchedule(5, 2, 10, 42), InterleavedSchedule(5, 2, 10, 43));
}

TEST(InterleavedScheduleTest, GivesEveryConfigurationEveryPlaceAboutEquallyOften) {
  constexpr int kConfigs = 4;
  constexpr int kRounds = 4000;
  int count[kConfigs][kConfigs] = {};
  const std::vector<ScheduledStep> steps = InterleavedSchedule(kConfigs, 0, kRounds, 7);
  for (size_t i = 0; i < steps.size(); ++i) ++count[steps[i].config][i % kConfigs];
  // A count is binomial with mean 1000 and standard deviation 27.4: five of them to either side.
  for (const auto& places : count) {
    for (const int times : places) EXPECT_NEAR(times, kRounds / kConfigs, 137);
  }
}

TEST(InterleavedScheduleTest, OneConfigurationIsABlock) {
  const std::vector<ScheduledStep> expected = {{0, 0, true}, {0, 1, false}, {0, 2, false}};
  EXPECT_EQ(InterleavedSchedule(1, 1, 2, 9), expected);
}

}  // namespace
}  // namespace gradsync::bench
