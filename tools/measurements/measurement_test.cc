#include "tools/measurements/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tools/measurements/test_records.h"

namespace gradsync::tools {
namespace {

using bench::CheckName;
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

TEST(MeasurementTest, FactsThatAreMissingDecideNothing) {
  const auto make = [](const std::string& agreement, const std::string& stage) {
    Record record = DdpRecord("core", 0, {1000});
    record.facts = bench::FactFields();
    if (!agreement.empty()) record.facts.Set("agreement", agreement);
    if (!stage.empty()) record.facts.Set("stage", stage);
    return CombineRanks({record});
  };
  const Measurement unknown = make("", "");
  EXPECT_TRUE(unknown.is_exact() && !unknown.drifts() && unknown.stage() == Stage::kNone);
  const Measurement lossy = make("lossy", "choosing");
  EXPECT_TRUE(!lossy.is_exact() && !lossy.drifts() && lossy.stage() == Stage::kChoosing);
  const Measurement adrift = make("drifts", "deciding");
  EXPECT_TRUE(!adrift.is_exact() && adrift.drifts() && adrift.stage() == Stage::kDeciding);
}

// Rank 1 computes 2 longer; rank 0, which is ready earlier, waits for it.
TEST(MeasurementTest, WaitingForALateRankIsNoCommunication) {
  Record early = DdpRecord("naive", 0, {10000}), late = DdpRecord("naive", 1, {10000});
  early.samples["forward_ns"] = late.samples["forward_ns"] = {1000};
  early.samples["backward_ns"] = {3000};
  late.samples["backward_ns"] = {5000};
  early.samples["sync_wait_ns"] = {4000};
  late.samples["sync_wait_ns"] = {2000};
  const Measurement measurement = CombineRanks({early, late});
  EXPECT_THAT(measurement.Find(kComputed)->max, ElementsAre(DoubleEq(6e-6)));
  EXPECT_THAT(measurement.Find(kAveraged)->max, ElementsAre(DoubleEq(8e-6)));
  EXPECT_THAT(measurement.Find(kSkew)->max, ElementsAre(DoubleEq(2e-6)));
  // What was published as synchronisation is the early rank's wait.
  EXPECT_THAT(measurement.Find(kWaits)->max, ElementsAre(DoubleEq(4e-6)));
}

// Rank 1 leaves the barrier 300 later. Of three steps in a row, that delays the mean of rank 0 by 100.
TEST(MeasurementTest, StepsOfARankThatBeginsEarlierAreShorter) {
  for (const int64_t period : {1, 3}) {
    Record early = DdpRecord("naive", 0, {1000}), late = DdpRecord("naive", 1, {650});
    early.samples["begin_ns"] = {500};
    late.samples["begin_ns"] = {800};
    for (Record* const rank : {&early, &late})
      if (period > 1) rank->facts.Set("period", period);
    const Measurement measurement = CombineRanks({early, late});
    const double less = 300.0 / static_cast<double>(period);
    EXPECT_THAT(measurement.Find("step_ns")->rank_means,
                ElementsAre(DoubleEq(1e-9 * (1000 - less)), DoubleEq(6.5e-7)));
    // Forward and backward, three fifths of a step.
    EXPECT_THAT(measurement.Find(kComputed)->rank_means,
                ElementsAre(DoubleEq(1e-9 * (600 - less)), DoubleEq(3.9e-7)));
    EXPECT_THAT(measurement.Find(kAveraged)->rank_means,
                ElementsAre(DoubleEq(1e-9 * (900 - less)), DoubleEq(5.85e-7)));
  }
}

// A name does not make hosts one machine, nor two names two.
TEST(MeasurementTest, OnlyClocksOfOneMachineCompare) {
  for (const bool is_one : {true, false}) {
    Record early = DdpRecord("naive", 0, {1000}), late = DdpRecord("naive", 1, {650});
    early.samples["begin_ns"] = {500};
    late.samples["begin_ns"] = {800};
    early.facts.Set("boot", "a");
    late.facts.Set("boot", is_one ? "a" : "b");
    if (is_one) late.provenance.host += "2";
    const Measurement measurement = CombineRanks({early, late});
    EXPECT_DOUBLE_EQ(measurement.Find("step_ns")->rank_means[0], is_one ? 7e-7 : 1e-6);
    EXPECT_EQ(measurement.ranks_on_host, is_one ? 2 : 1);
  }
}

TEST(MeasurementTest, LaunchesFollowEachOther) {
  const auto launch = [](const char* run, const std::vector<int64_t>& steps, bool is_equal) {
    std::vector<Record> ranks = {DdpRecord("naive", 0, steps), DdpRecord("naive", 1, steps)};
    for (Record& rank : ranks) {
      rank.run_id = run;
      rank.checks.Set("grads_equal", is_equal);
    }
    return CombineRanks(ranks);
  };
  Measurement all = launch("a", {1000, 2000, 3000}, true);
  AddLaunch(launch("b", {4000}, false), &all);
  EXPECT_EQ(all.launches, (std::vector<Launch>{{"a", 3}, {"b", 1}}));
  EXPECT_EQ(all.num_steps, 4u);
  EXPECT_THAT(all.Find("step_ns")->max,
              ElementsAre(DoubleEq(1e-6), DoubleEq(2e-6), DoubleEq(3e-6), DoubleEq(4e-6)));
  EXPECT_DOUBLE_EQ(all.Find("step_ns")->rank_means[0], 2.5e-6);
  EXPECT_EQ(all.grads_equal, false);
}

// What is wrong in a later launch is wrong, and a rank that is missing there is missing.
TEST(MeasurementTest, TheWorstLaunchCounts) {
  const auto launch = [](bool is_equal, int64_t wrong, double error) {
    Record record = DdpRecord("naive", 0, {1000});
    for (const CheckName name :
         {CheckName("grads_equal"), CheckName("params_equal"), CheckName("replicas_equal")})
      record.checks.Set(name, is_equal);
    record.checks.Set("wrong_elements", wrong);
    record.checks.Set("grad_rel_error", error);
    record.checks.Set("param_rel_error", error);
    return record;
  };
  Measurement all = CombineRanks({launch(true, 0, 0.1), DdpRecord("naive", 1, {1000})});
  AddLaunch(CombineRanks({launch(false, 3, 0.5)}), &all);
  AddLaunch(CombineRanks({launch(true, 2, 0.2), DdpRecord("naive", 1, {1000})}), &all);
  EXPECT_EQ(all.grads_equal, false);
  EXPECT_EQ(all.params_equal, false);
  EXPECT_EQ(all.replicas_equal, false);
  EXPECT_EQ(all.wrong_elements, 5);
  EXPECT_EQ(all.grad_rel_error, 0.5);
  EXPECT_EQ(all.param_rel_error, 0.5);
  EXPECT_EQ(all.num_ranks, 1);
}

}  // namespace
}  // namespace gradsync::tools
