#include "bench/records/step_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradsync::bench {
namespace {

// Each part has a bit of its own, so that a sum tells its parts.
constexpr StepTimes kAll{.begin_step = 1,
                         .forward = 2,
                         .backward = 4,
                         .hooks = 8,
                         .forward_wait = 16,
                         .backward_wait = 32,
                         .sync_wait = 64,
                         .backward_and_sync = {},
                         .optimizer = 128};

TEST(StepTimesTest, SumsGrowFromComputationToTheWholeStep) {
  EXPECT_EQ(kAll.computed(), 2 + 4);
  EXPECT_EQ(kAll.worked(), 2 + 4 + 1 + 8);
  EXPECT_EQ(kAll.averaged(), 127);
  EXPECT_EQ(kAll.step(), 255);
  EXPECT_EQ(kAll.waits(), 16 + 32 + 64);
  EXPECT_EQ(kAll.after_forward(), 4 + 8 + 16 + 32 + 64);
}

// On a GPU the strategy's work is in forward and backward, and most strategies wait in neither.
TEST(StepTimesTest, PartsThatLieInOthersAreNothing) {
  const StepTimes times{.forward = 2, .backward = 4, .sync_wait = 64, .optimizer = 128};
  EXPECT_EQ(times.worked(), 6);
  EXPECT_EQ(times.averaged(), 70);
  EXPECT_EQ(times.step(), 198);
  EXPECT_EQ(times.waits(), 64);
  EXPECT_EQ(times.after_forward(), 68);
}

TEST(StepTimesTest, WhoCannotTellBackwardFromSyncHasTheWholeAlone) {
  const StepTimes times{.forward = 2, .backward_and_sync = 64, .optimizer = 128};
  EXPECT_EQ(times.step(), 194);
  EXPECT_EQ(times.after_forward(), 64);
  for (const StepTimes::Part& part : {times.computed(), times.worked(), times.averaged(), times.waits()})
    EXPECT_FALSE(part.has_value());
}

TEST(StepTimesTest, WithoutAPartThereIsNoSum) {
  for (StepTimes::Part StepTimes::*const part :
       {&StepTimes::forward, &StepTimes::backward, &StepTimes::sync_wait, &StepTimes::optimizer}) {
    StepTimes times = kAll;
    times.*part = {};
    EXPECT_FALSE(times.step().has_value());
  }
}

TEST(StepTimesTest, SamplesHaveEveryPart) {
  StepTimes once = kAll, twice;
  once.backward_and_sync = 256;
  for (const auto& [name, part] : kStepParts) twice.*part = 2 * *(once.*part);
  SampleSeries samples;
  AddTo(samples, once);
  AddTo(samples, twice);
  EXPECT_EQ(samples.size(), std::size(kStepParts));
  for (const auto& [name, part] : kStepParts) {
    EXPECT_EQ(MeanOf(std::vector{once, twice, once, twice}).*part, *(once.*part) * 3 / 2) << name.text();
    EXPECT_EQ(TimesAt(samples, 0).*part, once.*part) << name.text();
    EXPECT_EQ(TimesAt(samples, 1).*part, 2 * *(once.*part)) << name.text();
    EXPECT_FALSE((TimesAt(samples, 2).*part).has_value()) << name.text();
    EXPECT_FALSE(MeanOf(std::vector(2, StepTimes())).*part) << name.text();
  }
}

}  // namespace
}  // namespace gradsync::bench
