#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/training/trainer.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;

TEST(TrainingRecordTest, SamplesAreThePartsOfEachStep) {
  const StepResult step{.times = {.forward = 28, .backward = 37, .sync_wait = 5, .optimizer = 7},
                        .begin_ns = 100,
                        .comm_busy_ns = 9,
                        .cpu = CpuTimes{.compute_ns = 60, .communication_ns = 4}};
  const Record record = MakeSamples(step, 11);
  const auto sample = [&](SampleName name) { return record.samples.at(name); };
  EXPECT_THAT(sample("begin_ns"), ElementsAre(100));
  EXPECT_EQ(TimesAt(record.samples, 0).step(), 28 + 37 + 5 + 7);
  EXPECT_THAT(sample("comm_busy_ns"), ElementsAre(9));
  EXPECT_THAT(sample("compute_cpu_ns"), ElementsAre(60));
  EXPECT_THAT(sample("communication_cpu_ns"), ElementsAre(4));
  EXPECT_THAT(sample("position"), ElementsAre(11));
  EXPECT_EQ(record.samples.size(), 9u);
}

TEST(TrainingRecordTest, WhatIsNotKnownIsNotThere) {
  const Record record = MakeSamples({.times = {.forward = 30, .backward_and_sync = 45, .optimizer = 7}}, 0);
  std::vector<std::string> names;
  for (const auto& [name, values] : record.samples) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("backward_and_sync_ns", "forward_ns", "optimizer_ns", "position"));
}

}  // namespace
}  // namespace gradsync::bench
