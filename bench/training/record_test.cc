#include "bench/training/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;

StepResult StepOf(int64_t forward_ns, int64_t backward_ns) {
  StepResult step;
  step.marks.at_ns = {100, 100 + forward_ns, 100 + forward_ns + backward_ns,
                      100 + forward_ns + backward_ns + 5, 100 + forward_ns + backward_ns + 12};
  step.comm_busy_ns = 9;
  step.allocations = 2;
  return step;
}

TEST(TrainingRecordTest, SamplesAreThePhasesOfEachStep) {
  Record record;
  AddSamples(StepOf(10, 20), 4, record);
  AddSamples(StepOf(30, 40), 9, record);
  EXPECT_THAT(record.samples["step_ns"], ElementsAre(42, 82));
  EXPECT_THAT(record.samples["forward_ns"], ElementsAre(10, 30));
  EXPECT_THAT(record.samples["backward_ns"], ElementsAre(20, 40));
  EXPECT_THAT(record.samples["sync_exposed_ns"], ElementsAre(5, 5));
  EXPECT_THAT(record.samples["optimizer_ns"], ElementsAre(7, 7));
  EXPECT_THAT(record.samples["comm_busy_ns"], ElementsAre(9, 9));
  EXPECT_THAT(record.samples["backward_and_sync_ns"], ElementsAre(25, 45));
  EXPECT_THAT(record.samples["position"], ElementsAre(4, 9));
  EXPECT_EQ(record.facts.IntOr("allocations_in_timed_steps", -1), 4);
}

}  // namespace
}  // namespace gradsync::bench
