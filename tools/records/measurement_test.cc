#include "tools/records/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tools/records/test_records.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(MeasurementTest, AStepIsOverWhenItsLastRankIs) {
  const Measurement measurement =
      CombineRanks({DdpRecord("naive", 0, {1000, 4000, 2000}), DdpRecord("naive", 1, {3000, 3000, 1000})});
  const Series* step = measurement.Find("step_ns");
  ASSERT_NE(step, nullptr);
  EXPECT_THAT(step->max, ElementsAre(DoubleEq(3e-6), DoubleEq(4e-6), DoubleEq(2e-6)));
  ASSERT_EQ(step->rank_means.size(), 2u);
  EXPECT_DOUBLE_EQ(step->rank_means[0], 7e-6 / 3);
  EXPECT_DOUBLE_EQ(step->rank_stds[1], std::sqrt(8.0 / 9) * 1e-6);  // 3, 3, 1
  EXPECT_EQ(measurement.num_steps, 3u);
  EXPECT_EQ(measurement.num_ranks, 2);
  EXPECT_EQ(measurement.ranks_on_host, 2);
  EXPECT_EQ(measurement.Find("time_ns"), nullptr);
}

TEST(MeasurementTest, OnlyStepsThatAllRanksHaveCount) {
  const Measurement measurement =
      CombineRanks({DdpRecord("naive", 0, {1000, 4000}), DdpRecord("naive", 1, {3000, 3000, 9000})});
  EXPECT_TRUE(measurement.steps_differ);
  EXPECT_EQ(measurement.Find("step_ns")->max.size(), 2u);
  EXPECT_DOUBLE_EQ(measurement.Find("step_ns")->rank_means[1], 3e-6);
}

TEST(MeasurementTest, TheWorstCheckOfAnyRankCounts) {
  Record first = DdpRecord("naive", 0, {1000});
  Record second = DdpRecord("naive", 1, {1000});
  first.checks.Set("wrong_elements", 2);
  second.checks.Set("wrong_elements", 3);
  second.checks.Set("grads_equal", false);
  second.checks.Set("grad_rel_error", 0.5);
  const Measurement measurement = CombineRanks({first, second});
  EXPECT_EQ(measurement.wrong_elements, 5);
  EXPECT_EQ(measurement.grads_equal, false);
  EXPECT_EQ(measurement.grad_rel_error, 0.5);
  EXPECT_EQ(measurement.param_rel_error, std::nullopt);

  first.checks.Set("grad_rel_error", std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(*CombineRanks({first, second}).grad_rel_error));
  EXPECT_TRUE(std::isnan(*CombineRanks({second, first}).grad_rel_error));
}

}  // namespace
}  // namespace gradsync::tools
