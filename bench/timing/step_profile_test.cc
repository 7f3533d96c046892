#include "bench/timing/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/op_cost.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/peaks.h"
#include "bench/timing/phase_timer.h"
#include "model/device.h"

namespace gradsync::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

// 1 TFLOP/s and 1 GB/s: a GFLOP takes a millisecond, and so does a MB.
Peaks PeaksOfOne() { return {.flops = {1e12, "a guess"}, .bandwidth = {1e9, "given"}}; }

// A step that begins at 100 ms: 20 ms of forward, 30 of backward, 5 of waiting, 10 of the optimizer.
StepMarks Marks() { return {.at_ns = {100 * kMs, 120 * kMs, 150 * kMs, 155 * kMs, 165 * kMs}}; }

const OpCosts kProduct{.forward = {.flops = 2e9, .bytes = 1e6}, .backward = {.flops = 4e9, .bytes = 1e6}};
const OpCosts kSum{.forward = {.flops = 0, .bytes = 3e6}, .backward = {.flops = 0, .bytes = 1e6}};

// Two products and a sum, in 18 ms; backward 24 ms, of which a range inside has 4.
StepProfile ProfileOf(int steps) {
  StepProfile profile(PeaksOfOne(), "adamw", {.flops = 0, .bytes = 7e6});
  for (int step = 0; step < steps; ++step) {
    profile.Add(Marks(),
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
  //                                   calls       ms   share        GFLOP        MB     limit   reached
  EXPECT_THAT(table, ContainsRegex("forward +product +2.0 +12.000 +18.5% +4.000 +2.00 +4.000 +33.3%"));
  EXPECT_THAT(table, ContainsRegex("forward +sum +1.0 +6.000 +9.2% +0.000 +3.00 +3.000 +50.0%"));
  EXPECT_THAT(table, ContainsRegex("forward +other +1.0 +2.000 +3.1% +0.000 +0.00 +0.000 +0.0%"));
  EXPECT_THAT(table, ContainsRegex("backward +product +1.0 +16.000 +24.6% +8.000 +2.00 +8.000 +50.0%"));
  EXPECT_THAT(table, ContainsRegex("backward +sum +2.0 +8.000 +12.3% +0.000 +1.00 +1.000 +12.5%"));
  EXPECT_THAT(table, ContainsRegex("backward +other +1.0 +6.000"));
  EXPECT_THAT(table, ContainsRegex("sync +exposed +1.0 +5.000"));
  EXPECT_THAT(table, ContainsRegex("optimizer +adamw +1.0 +10.000 +15.4% +0.000 +7.00 +7.000 +70.0%"));
  EXPECT_LT(table.find("backward   product"), table.find("forward    product"));
}

TEST(StepProfileTest, ALineComparesTheStepWithItsLimit) {
  EXPECT_THAT(ProfileOf(2).ToString(),
              HasSubstr("The limit is 23.000 ms of the step's 65.000 ms (35.4%), at 1 TFLOP/s (a guess) and "
                        "1 GB/s (given). Largest gaps: backward product 8.000 ms, forward product 8.000 ms, "
                        "backward sum 7.000 ms, backward other 6.000 ms.\n"));
}

TEST(StepProfileTest, TheRecordHasASampleForEachStep) {
  StepProfile profile = ProfileOf(1);
  // A step with an operation that the first has not, and without the others.
  profile.Add(Marks(), {{"late", kSum, 0, 103 * kMs}}, {});
  Record record;
  profile.WriteTo(record);
  EXPECT_EQ(record.samples.at("forward.product_ns"), (std::vector<int64_t>{12 * kMs, 0}));
  EXPECT_EQ(record.samples.at("forward.late_ns"), (std::vector<int64_t>{0, 3 * kMs}));
  EXPECT_EQ(record.samples.at("forward.other_ns"), (std::vector<int64_t>{2 * kMs, 17 * kMs}));
  EXPECT_EQ(record.samples.at("backward.other_ns"), (std::vector<int64_t>{6 * kMs, 30 * kMs}));
  EXPECT_EQ(record.samples.at("optimizer.adamw_ns"), (std::vector<int64_t>{10 * kMs, 10 * kMs}));
}

TEST(PeaksTest, TheLimitIsWhatTakesLonger) {
  const Peaks peaks = PeaksOfOne();
  EXPECT_DOUBLE_EQ(LimitNs({.flops = 3e6, .bytes = 1e3}, peaks), 3000);
  EXPECT_DOUBLE_EQ(LimitNs({.flops = 3e6, .bytes = 5e3}, peaks), 5000);
}

TEST(PeaksTest, AreMeasuredAndGiveTheirMemoryBack) {
  const model::DevicePtr device = model::CpuDevice(2);
  const Peaks peaks = {MeasureFlops(device, model::DType::kBF16), MeasureBandwidth(device)};
  // Whatever computes or copies at all does more, and no CPU does as much.
  EXPECT_GT(peaks.flops.per_second, 1e7);
  EXPECT_LT(peaks.flops.per_second, 1e15);
  EXPECT_GT(peaks.bandwidth.per_second, 1e7);
  EXPECT_LT(peaks.bandwidth.per_second, 1e14);
  EXPECT_THAT(ToString(peaks), HasSubstr("FLOP/s (a product of f32 matrices, side 1024) and "));
  EXPECT_EQ(device->allocator().stats().bytes_held, 0u);
}

}  // namespace
}  // namespace gradsync::bench
