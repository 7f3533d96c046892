#include "bench/timing/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/op_cost.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/phase_timer.h"
#include "model/tensor/device.h"

namespace gradsync::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// A step that begins at 100 ms: 20 ms of forward, 30 of backward, 5 of waiting, 10 of the update, which waits
// for one of these.
StepMarks Marks() { return {.at_ns = {100 * kMs, 120 * kMs, 150 * kMs, 155 * kMs, 165 * kMs}}; }
StepTimes Times() {
  return {.forward = 20 * kMs, .backward = 30 * kMs, .sync_wait = 6 * kMs, .optimizer = 9 * kMs};
}

constexpr Flops kProduct{.forward = 2e9, .backward = 4e9}, kSum{};

// Two products and a sum, in 18 ms; backward 24 ms, of which a range inside has 4.
StepProfile ProfileOf(int steps) {
  StepProfile profile({1e12, "a guess"}, "adamw");
  for (int step = 0; step < steps; ++step) {
    profile.Add(Marks(), Times(), {},
                {{"product", kProduct, 0, 108 * kMs},
                 {"product", kProduct, 108 * kMs, 112 * kMs},
                 {"sum", kSum, 112 * kMs, 118 * kMs}},
                {{"product", 122 * kMs, 142 * kMs, -1},
                 {"sum", 130 * kMs, 134 * kMs, 0},
                 {"sum", 145 * kMs, 149 * kMs, -1}});
  }
  return profile;
}

TEST(StepProfileTest, EveryMillisecondIsInOneRow) {
  const std::string table = ProfileOf(2).ToString();
  //                                   calls       ms   share        GFLOP  GFLOP/s
  EXPECT_THAT(table, ContainsRegex("forward +product +2.0 +12.000 +18.5% +4.000 +333.3"));
  EXPECT_THAT(table, ContainsRegex("forward +sum +1.0 +6.000 +9.2% +0.000 +0.0"));
  EXPECT_THAT(table, ContainsRegex("forward +other +1.0 +2.000 +3.1% +0.000 +0.0"));
  EXPECT_THAT(table, ContainsRegex("backward +product +1.0 +16.000 +24.6% +8.000 +500.0"));
  EXPECT_THAT(table, ContainsRegex("backward +sum +2.0 +8.000 +12.3% +0.000 +0.0"));
  EXPECT_THAT(table, ContainsRegex("backward +other +1.0 +6.000"));
  EXPECT_THAT(table, ContainsRegex("sync +waits +1.0 +6.000"));
  EXPECT_THAT(table, ContainsRegex("optimizer +adamw +1.0 +9.000 +13.8% +0.000 +0.0"));
  EXPECT_LT(table.find("backward   product"), table.find("forward    product"));
}

TEST(StepProfileTest, ALineComparesTheStepWithThePeak) {
  EXPECT_THAT(ProfileOf(2).ToString(),
              HasSubstr("At the peak of 1e+03 GFLOP/s (a guess) the arithmetic takes 12.000 ms of the step's "
                        "65.000 ms (18.5%).\n"));
}

TEST(StepProfileTest, TheRecordHasASampleForEachStep) {
  StepProfile profile = ProfileOf(1);
  // A step with an operation that the first has not, and without the others.
  profile.Add(Marks(), Times(), {}, {{"late", kSum, 0, 103 * kMs}}, {});
  Record record;
  profile.WriteTo(record);
  EXPECT_EQ(record.samples.at("forward.product_ns"), (std::vector<int64_t>{12 * kMs, 0}));
  EXPECT_EQ(record.samples.at("forward.late_ns"), (std::vector<int64_t>{0, 3 * kMs}));
  EXPECT_EQ(record.samples.at("forward.other_ns"), (std::vector<int64_t>{2 * kMs, 17 * kMs}));
  EXPECT_EQ(record.samples.at("backward.other_ns"), (std::vector<int64_t>{6 * kMs, 30 * kMs}));
  EXPECT_EQ(record.samples.at("sync.exposed_ns"), (std::vector<int64_t>{6 * kMs, 6 * kMs}));
  EXPECT_EQ(record.samples.at("optimizer.adamw_ns"), (std::vector<int64_t>{9 * kMs, 9 * kMs}));
}

// Forward and backward wait, before an operation, in one, in one that is in another, and between operations.
TEST(StepProfileTest, WaitsBelongToNoOperation) {
  StepProfile profile({1e12, "a guess"}, "adamw");
  const std::vector<StepWait> waits = {
      {.begin_ns = 101 * kMs, .end_ns = 102 * kMs, .is_counted = false},  // in BeginStep
      {.begin_ns = 104 * kMs, .end_ns = 105 * kMs},
      {.begin_ns = 109 * kMs, .end_ns = 111 * kMs},
      {.begin_ns = 118 * kMs, .end_ns = 119 * kMs},
      {.begin_ns = 123 * kMs, .end_ns = 125 * kMs},
      {.begin_ns = 131 * kMs, .end_ns = 134 * kMs},
      {.begin_ns = 143 * kMs, .end_ns = 144 * kMs},
      {.begin_ns = 150 * kMs, .end_ns = 155 * kMs},
      {.begin_ns = 156 * kMs, .end_ns = 157 * kMs}};
  profile.Add(Marks(),
              {.begin_step = 3 * kMs,
               .forward = 13 * kMs,
               .backward = 23 * kMs,
               .hooks = 1 * kMs,
               .forward_wait = 4 * kMs,
               .backward_wait = 4 * kMs,
               .sync_wait = 8 * kMs,
               .optimizer = 9 * kMs},
              waits, {{"product", kProduct, 0, 108 * kMs}, {"sum", kSum, 108 * kMs, 114 * kMs}},
              {{"product", 122 * kMs, 142 * kMs, -1}, {"sum", 130 * kMs, 136 * kMs, 0}});
  Record record;
  profile.WriteTo(record);
  const auto ms = [&](SampleName name) { return record.samples.at(name).at(0) / kMs; };
  EXPECT_EQ(ms("forward.product_ns"), 8 - 1);
  EXPECT_EQ(ms("forward.sum_ns"), 6 - 2);
  EXPECT_EQ(ms("forward.other_ns"), 20 - 8 - 6 - 1);
  EXPECT_EQ(ms("backward.product_ns"), 20 - 6 - 2);
  EXPECT_EQ(ms("backward.sum_ns"), 6 - 3);
  EXPECT_EQ(ms("backward.other_ns"), 30 - 20 - 1);
  EXPECT_EQ(ms("sync.exposed_ns"), 4 + 6 + 5 + 1);
  EXPECT_EQ(ms("optimizer.adamw_ns"), 9);
  int64_t sum_ns = 0;
  for (const auto& [name, samples] : record.samples) sum_ns += samples.at(0);
  EXPECT_EQ(sum_ns, Marks().step_ns());
}

TEST(PeaksTest, IsMeasuredAndGivesItsMemoryBack) {
  const model::DevicePtr device = model::CpuDevice(2);
  const Peak peak = MeasureFlops(device, model::DType::kBF16);
  // Whatever computes at all does more, and no CPU does as much.
  EXPECT_GT(peak.per_second, 1e7);
  EXPECT_LT(peak.per_second, 1e15);
  // In whichever of both this processor is faster.
  EXPECT_THAT(peak.source,
              testing::MatchesRegex("the best of several products: (bf16|f32), [0-9]+ x [0-9]+ x [0-9]+"));
  EXPECT_EQ(device->allocator().stats().bytes_held, 0u);
}

}  // namespace
}  // namespace gradsync::bench
