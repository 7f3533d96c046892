#include <gtest/gtest.h>

#include <optional>

#include "bench/learning/options.h"

namespace gradsync::bench {
namespace {

std::optional<LearningRateSchedule> Parse(const std::string& text) {
  return LearningRateSchedules().parse(text);
}

TEST(ScheduleTest, StaysConstantUnlessAsked) {
  const LearningRateSchedule schedule = *Parse("constant");
  EXPECT_EQ(schedule.ToString(), "constant");
  for (const int64_t step : {0, 1, 99}) EXPECT_EQ(schedule.ShareIn(step, 100), 1);
}

TEST(ScheduleTest, GrowsInEqualSteps) {
  const LearningRateSchedule schedule = *Parse("constant,warmup=3");
  EXPECT_EQ(schedule.ToString(), "constant,warmup=3");
  const double expected[] = {0.25, 0.5, 0.75, 1, 1};
  for (int64_t i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(schedule.ShareIn(i, 100), expected[i]);
}

// At the angles whose cosines everybody knows: 0, 60, 90, 120 degrees, of 12 steps behind the warmup.
TEST(ScheduleTest, FallsLikeHalfACosine) {
  const LearningRateSchedule schedule = *Parse("cosine,warmup=8,min=0.2");
  EXPECT_EQ(schedule.ToString(), "cosine,warmup=8,min=0.2");
  EXPECT_DOUBLE_EQ(schedule.ShareIn(7, 20), 8.0 / 9);
  EXPECT_DOUBLE_EQ(schedule.ShareIn(8, 20), 1);
  EXPECT_DOUBLE_EQ(schedule.ShareIn(12, 20), 0.2 + 0.8 * 0.75);
  EXPECT_DOUBLE_EQ(schedule.ShareIn(14, 20), 0.2 + 0.8 * 0.5);
  EXPECT_DOUBLE_EQ(schedule.ShareIn(16, 20), 0.2 + 0.8 * 0.25);
  EXPECT_DOUBLE_EQ(schedule.ShareIn(20, 20), 0.2);
  EXPECT_DOUBLE_EQ(Parse("cosine")->ShareIn(10, 20), 0.5);
}

TEST(ScheduleTest, RefusesWhatItIsNot) {
  for (const char* const text :
       {"", "linear", "cosine,", "cosine,warmup", "cosine,warmup=-1", "cosine,warmup=1.5", "cosine,min=2",
        "cosine,min=nan", "constant,min=0.1", "cosine,max=1", "cosine,=1"}) {
    EXPECT_FALSE(Parse(text)) << text;
  }
}

}  // namespace
}  // namespace gradsync::bench
