#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/training/trainer.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;

StepResult StepOf(int64_t forward_ns, int64_t backward_ns) {
  StepResult step;
  step.marks.at_ns = {100, 100 + forward_ns, 100 + forward_ns + backward_ns,
                      100 + forward_ns + backward_ns + 5, 100 + forward_ns + backward_ns + 12};
  step.comm_busy_ns = 9;
  step.cpu = CpuTimes{.compute_ns = 60, .communication_ns = 4};
  return step;
}

TEST(TrainingRecordTest, SamplesAreThePhasesOfEachStep) {
  StepResult step = StepOf(30, 40);
  step.begin_ns = 100;
  step.begin_step_ns = 2;
  step.hooks_ns = 3;
  const Record record = SamplesOf(step, 9);
  const auto sample = [&](SampleName name) { return record.samples.at(name); };
  EXPECT_THAT(sample("step_ns"), ElementsAre(82));
  EXPECT_THAT(sample("begin_ns"), ElementsAre(100));
  EXPECT_THAT(sample("begin_step_ns"), ElementsAre(2));
  EXPECT_THAT(sample("forward_ns"), ElementsAre(28));
  EXPECT_THAT(sample("backward_ns"), ElementsAre(37));
  EXPECT_THAT(sample("hooks_ns"), ElementsAre(3));
  EXPECT_THAT(sample("sync_exposed_ns"), ElementsAre(5));
  EXPECT_THAT(sample("optimizer_ns"), ElementsAre(7));
  EXPECT_THAT(sample("comm_busy_ns"), ElementsAre(9));
  EXPECT_THAT(sample("backward_and_sync_ns"), ElementsAre(45));
  EXPECT_THAT(sample("compute_cpu_ns"), ElementsAre(60));
  EXPECT_THAT(sample("communication_cpu_ns"), ElementsAre(4));
  EXPECT_THAT(sample("position"), ElementsAre(9));
  EXPECT_EQ(record.samples.size(), 13u);
}

// Waits in forward and in hooks are no computation: they move to synchronisation, and the step stays as it
// is.
TEST(TrainingRecordTest, WaitsInForwardAndBackwardAreExposed) {
  StepResult step = StepOf(30, 40);
  step.begin_step_ns = 2;
  step.hooks_ns = 3;
  step.forward_waited_ns = 11;
  step.forward_gathers_ns = 8;
  step.hooks_waited_ns = 13;
  step.backward_gathers_ns = 9;
  const Record record = SamplesOf(step, 0);
  const auto sample = [&](SampleName name) { return record.samples.at(name).front(); };
  EXPECT_EQ(sample("step_ns"), 82);
  EXPECT_EQ(sample("forward_ns"), 28 - 11);
  EXPECT_EQ(sample("backward_ns"), 37 - 13);
  EXPECT_EQ(sample("sync_exposed_ns"), 5 + 11 + 13);
  EXPECT_EQ(sample("backward_and_sync_ns"), 45 + 11);
  EXPECT_EQ(sample("forward_wait_ns"), 8);
  EXPECT_EQ(sample("backward_wait_ns"), 9);
  EXPECT_EQ(sample("reduce_wait_ns"), 5 + (11 - 8) + (13 - 9));
  EXPECT_EQ(sample("begin_step_ns") + sample("forward_ns") + sample("backward_and_sync_ns") +
                sample("optimizer_ns"),
            sample("step_ns"));
}

TEST(TrainingRecordTest, WhatIsNotKnownIsNotThere) {
  const StepResult step{.marks = StepOf(30, 40).marks, .tells_sync = false};
  const Record record = SamplesOf(step, 0);
  std::vector<std::string> names;
  for (const auto& [name, values] : record.samples) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("backward_and_sync_ns", "forward_ns", "optimizer_ns", "position", "step_ns"));
}

}  // namespace
}  // namespace gradsync::bench
