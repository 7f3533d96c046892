// The program, from its command line to its records.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/testing/run_program.h"

namespace gradsync::bench {
namespace {

using ::testing::StartsWith;

constexpr char kVariants[] =
    "--variants=none,naive@gloo,core@gloo,core:rows=1@gloo,core_update@shm,zero1@gloo,zero1@shm,flat@gloo,"
    "bf16_wire@shm";

std::map<std::string, Record> RunAndRead(const std::string& program, std::vector<std::string> arguments) {
  const std::string out = FreshDirectory();
  arguments.insert(arguments.end(), {"--model=tiny", "--num_layers=1", "--vocab_size=500", "--d_model=64",
                                     "--num_heads=2", "--batch_size=1", "--seq_len=16", "--warmup_steps=2",
                                     "--steps=3", kVariants, "--out=" + out});
  const ProgramResult result = RunProgram(program, arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  std::map<std::string, Record> records;
  for (const Record& record : RecordsIn(out)) {
    if (record.rank == 0) records[record.variant.name()] = record;
  }
  EXPECT_EQ(records.size(), 9u);
  return records;
}

// What a run of as many ranks sends.
TEST(PlanTest, IsThatOfARun) {
  const std::map<std::string, Record> plans = RunAndRead("bench/plan", {"--world_size=2"});
  for (const auto& [name, run] : RunAndRead("bench/ddp", {"--world_size=2"})) {
    SCOPED_TRACE(name);
    const Record& plan = plans.at(name);
    EXPECT_EQ(plan.experiment, "plan");
    EXPECT_EQ(plan.world_size, 2);
    EXPECT_EQ(plan.parameter_bytes, run.parameter_bytes);
    ASSERT_EQ(plan.buckets.size(), run.buckets.size());
    for (size_t i = 0; i < run.buckets.size(); ++i) {
      EXPECT_EQ(plan.buckets[i].bytes, run.buckets[i].bytes);
      EXPECT_EQ(plan.buckets[i].collective, run.buckets[i].collective);
      EXPECT_EQ(plan.buckets[i].parameters, run.buckets[i].parameters);
      EXPECT_EQ(plan.buckets[i].parameters.size(), static_cast<size_t>(plan.buckets[i].tensors));
    }
    for (const FactName fact :
         {FactName("overlaps"), FactName("copies_gradients"), FactName("scales_gradients"),
          FactName("places_gradients"), FactName("updates"), FactName("agreement"),
          FactName("sent_bytes_per_step"), FactName("gradient_bytes")}) {
      ASSERT_NE(plan.facts.Find(fact), nullptr) << fact.text();
      EXPECT_EQ(*plan.facts.Find(fact), *run.facts.Find(fact)) << fact.text();
    }
  }
}

TEST(PlanTest, TraitsAreInTheRecord) {
  const std::map<std::string, Record> plans = RunAndRead("bench/plan", {"--world_size=2"});
  const auto is = [&](const char* variant, FactName fact) {
    return plans.at(variant).facts.BoolOr(fact, false);
  };
  EXPECT_TRUE(is("naive@gloo", "scales_gradients"));
  EXPECT_FALSE(is("flat@gloo", "scales_gradients"));
  EXPECT_TRUE(is("flat@gloo", "copies_gradients"));
  EXPECT_FALSE(is("naive@gloo", "copies_gradients"));
  EXPECT_FALSE(is("core@gloo", "copies_gradients"));
  EXPECT_TRUE(is("core@gloo", "places_gradients"));
  const auto updates = [&](const char* variant) { return plans.at(variant).facts.StringOr("updates", ""); };
  EXPECT_EQ(updates("core@gloo"), "whole");
  EXPECT_EQ(updates("core_update@shm"), "by_bucket");
  EXPECT_EQ(updates("zero1@shm"), "parts");
}

// The floor's steps say when which gradient is ready.
TEST(PlanTest, TheFloorIsTimed) {
  const Record floor = RunAndRead("bench/plan", {"--world_size=64"}).at("none");
  EXPECT_EQ(floor.world_size, 64);
  EXPECT_EQ(floor.samples.at("step_ns").size(), 3u);
  const std::vector<int64_t>& ready_ns = floor.moments.at("gradient_ready_ns");
  const size_t num_parameters = floor.parameter_bytes.size();
  EXPECT_EQ(num_parameters, static_cast<size_t>(floor.facts.IntOr("num_tensors", 0)));
  EXPECT_EQ(std::accumulate(floor.parameter_bytes.begin(), floor.parameter_bytes.end(), int64_t{0}),
            floor.facts.IntOr("gradient_bytes", 0));
  ASSERT_EQ(ready_ns.size(), 3 * num_parameters);
  for (size_t step = 0; step < 3; ++step) {
    const int64_t forward_ns = floor.samples.at("forward_ns")[step];
    const int64_t end_ns =
        forward_ns + floor.samples.at("backward_and_sync_ns")[step] + floor.samples.at("begin_step_ns")[step];
    const auto begin = ready_ns.begin() + static_cast<std::ptrdiff_t>(step * num_parameters);
    const auto [first, last] =
        std::minmax_element(begin, begin + static_cast<std::ptrdiff_t>(num_parameters));
    EXPECT_GT(*first, forward_ns);
    EXPECT_LE(*last, end_ns);
    // The embedding, the first parameter, is ready last.
    EXPECT_EQ(last - begin, 0);
  }
}

// Parts of a bucket are padded for the world.
TEST(PlanTest, DependsOnTheWorld) {
  const Record zero1 = RunAndRead("bench/plan", {"--world_size=4096"}).at("zero1@gloo");
  for (const BucketRecord& bucket : zero1.buckets) EXPECT_EQ(bucket.bytes % (4 * 4096), 0);
}

TEST(PlanTest, RefusesWhatThereIsNot) {
  const ProgramResult result = RunProgram("bench/plan", {"--variants=none,magic"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, StartsWith("--variants=magic: unknown strategy"));
}

}  // namespace
}  // namespace gradsync::bench
