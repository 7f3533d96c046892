#include "tools/predict/step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/error.h"

// Steps are computed by hand in each test; all times are whole seconds for legibility.
namespace gradsync::tools {
namespace {

using enum CollectiveKind;
using Sends = StepPlan::Sends;
using Updates = StepPlan::Updates;

LinkCosts ASecondForEachByte(double processor) {
  return LinkCosts({{kAllReduce, 1, 1, 1, processor}, {kAllReduce, 1, 100, 100, processor}});
}

// Forward 10, backward 20, optimizer 3. Three parameters of 4, 6 and 10 bytes, ready after 18, 12 and 5.
Round ARound() { return {.forward_s = 10, .backward_s = 20, .optimizer_s = 3, .ready_s = {18, 12, 5}}; }

StepInputs Inputs(StepPlan plan, double processor = 0) {
  return {.plan = std::move(plan),
          .rounds = {{ARound()}, {ARound()}},
          .parameter_bytes = {4, 6, 10},
          .calibration = {.link = ASecondForEachByte(processor)}};
}

StepPlan Singles(Sends sends) { return {.sends = sends, .buckets = {{{2}, 10}, {{1}, 6}, {{0}, 4}}}; }

double StepOf(const StepInputs& inputs) { return PredictStep(inputs).step_s.value; }

TEST(StepTest, WithoutSynchronisationIsTheSumOfItsPhases) {
  StepInputs inputs = Inputs({});
  inputs.rounds[1][0].rest_s = 2;
  const Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 35);
  EXPECT_DOUBLE_EQ(prediction.none_s, 35);
  EXPECT_DOUBLE_EQ(prediction.cost_s.value, 0);
  EXPECT_DOUBLE_EQ(prediction.floor_s, 35);
}

TEST(StepTest, OneBucketAfterBackward) {
  StepPlan plan{.sends = Sends::kAfterBackward, .buckets = {{{0, 1, 2}, 20}}, .copies = true};
  StepInputs inputs = Inputs(plan);
  inputs.calibration.copy_in = Curve({{0, 0.5}});
  inputs.calibration.copy_out = Curve({{0, 0.25}});
  const Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 33 + 10 + 20 + 5);
  EXPECT_DOUBLE_EQ(prediction.exposed_s, 35);
  EXPECT_DOUBLE_EQ(prediction.cost_s.value, 35);
}

TEST(StepTest, TheTypicalStepIsThatOfAllRounds) {
  StepInputs inputs = Inputs(Singles(Sends::kAfterBackward));
  Round slow = ARound();
  slow.forward_s += 8;
  for (std::vector<Round>& rank : inputs.rounds) rank = {ARound(), slow};
  EXPECT_DOUBLE_EQ(TypicalStep(inputs), 33 + 20 + 4);
  EXPECT_DOUBLE_EQ(StepOf(inputs), 33 + 20 + 4);
}

TEST(StepTest, CopiesTakeAsLongAsBucketsOfTheirSize) {
  StepPlan plan = Singles(Sends::kAfterBackward);
  plan.copies = true;
  StepInputs inputs = Inputs(plan);
  inputs.calibration.copy_in = Curve({{4, 0.5}, {10, 2}});
  // Copies of 10, 6 and 4 bytes.
  EXPECT_DOUBLE_EQ(StepOf(inputs), 33 + 20 + 10 * 2 + 6 * 1 + 4 * 0.5);
}

TEST(StepTest, BlockingCollectivesPayTheirLatencyEach) {
  StepInputs inputs = Inputs(Singles(Sends::kAfterBackward));
  EXPECT_DOUBLE_EQ(StepOf(inputs), 33 + 20);
  inputs.calibration.blocking_s = 2;
  EXPECT_DOUBLE_EQ(StepOf(inputs), 33 + 20 + 6);
}

TEST(StepTest, OverlapsFromTheFirstReadyGradientOn) {
  // Issued at 15, 22 and 28; the link is busy from 15 to 25, 25 to 31, 31 to 35.
  const Prediction prediction = PredictStep(Inputs(Singles(Sends::kDuringBackward)));
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 35 + 3);
  EXPECT_DOUBLE_EQ(prediction.exposed_s, 5);
}

// Rows of an embedding: `core:rows=1` gathers what each rank has of them, before the update.
TEST(StepTest, AGatheredBucketIsSentLikeTheOthers) {
  StepPlan plan = Singles(Sends::kDuringBackward);
  plan.buckets.back().kind = kAllGather;
  StepInputs inputs = Inputs(plan);
  inputs.calibration.link = LinkCosts({{kAllReduce, 1, 1, 1, 0},
                                       {kAllReduce, 1, 100, 100, 0},
                                       {kAllGather, 1, 1, 1, 0},
                                       {kAllGather, 1, 100, 100, 0}});
  EXPECT_DOUBLE_EQ(StepOf(inputs), 35 + 3);
}

TEST(StepTest, ABucketIsReadyWithItsLastGradientAndWaitsForThoseBefore) {
  // The first bucket is complete at 10 + 18; the second, ready before, goes behind it.
  StepPlan plan{.sends = Sends::kDuringBackward, .buckets = {{{0, 1}, 10}, {{2}, 10}}};
  EXPECT_DOUBLE_EQ(StepOf(Inputs(plan)), 28 + 20 + 3);
}

TEST(StepTest, SharesProcessorsDuringBackward) {
  // One bucket at 10 + 18 = 28, beside the last 2 s of backward, which take 3; 2 of 20 s are done at 31.
  StepPlan plan{.sends = Sends::kDuringBackward, .buckets = {{{0, 1, 2}, 20}}};
  const Prediction prediction = PredictStep(Inputs(plan, 0.5));
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 31 + 18 + 3);
  EXPECT_DOUBLE_EQ(prediction.exposed_s, 18);
}

TEST(StepTest, CopiesDuringBackwardMakeItLonger) {
  StepPlan plan{.sends = Sends::kDuringBackward, .buckets = {{{2}, 10}, {{0, 1}, 10}}, .copies = true};
  StepInputs inputs = Inputs(plan);
  inputs.calibration.copy_in = Curve({{0, 0.1}});
  inputs.calibration.copy_out = Curve({{0, 0.2}});
  // 1 s of copies from 15 on, and from 29 on: backward ends at 32. Links from 16 to 26 and 30 to 40; then the
  // second one's 2 s of copies.
  EXPECT_DOUBLE_EQ(StepOf(inputs), 40 + 2 + 3);
}

TEST(StepTest, TheLastRankOfEachBucketDecides) {
  StepInputs inputs = Inputs(Singles(Sends::kDuringBackward));
  inputs.rounds[1][0].ready_s = {18, 15, 5};
  inputs.rounds[0][0].forward_s = 12;
  // Rank 0 issues at 17, 24, 30 and rank 1 at 15, 25, 28: links from 17 to 27, 27 to 33, 33 to 37.
  EXPECT_DOUBLE_EQ(StepOf(inputs), 37 + 3);
}

TEST(StepTest, PlacedGradientsAndRemoteOnesTakeLonger) {
  StepPlan plan = Singles(Sends::kDuringBackward);
  plan.places_gradients = true;
  StepInputs inputs = Inputs(plan);
  inputs.calibration.placed_backward = 0.5;    // 20 bytes: backward of 30
  inputs.calibration.remote_optimizer = 0.05;  // 1
  // Issued at 10 + 7.5, 10 + 18 and 10 + 27; done at 27.5, 34, 41.
  EXPECT_DOUBLE_EQ(StepOf(inputs), 41 + 3 + 1);
}

TEST(StepTest, UpdatesByBucketBesideLaterOnes) {
  StepPlan plan = Singles(Sends::kDuringBackward);
  plan.updates = Updates::kByBucket;
  // Received at 25, 31 and 35, backward ends at 30: updates of 1.5 from 30, of 0.9 from 31.5, of 0.6 from 35.
  EXPECT_DOUBLE_EQ(StepOf(Inputs(plan)), 35.6);
}

TEST(StepTest, PartsAreUpdatedAndGathered) {
  StepPlan plan = Singles(Sends::kDuringBackward);
  plan.updates = Updates::kParts;
  for (PlannedBucket& bucket : plan.buckets) bucket.kind = kReduceScatter;
  // Half the time of all-reduces: received at 20, 25, 30. Half of the update of 3 from 30 on.
  EXPECT_DOUBLE_EQ(StepOf(Inputs(plan)), 31.5);
  for (size_t i = 0; i < 3; ++i) {
    PlannedBucket gathered = plan.buckets[i];
    gathered.kind = kAllGather;
    plan.buckets.push_back(gathered);
  }
  StepInputs inputs = Inputs(plan);
  inputs.calibration.copy_out = Curve({{0, 0.1}});
  // Updates end at 30.75 and 31.2. The gather of the first takes until 35.75, its copy until 36.75, the
  // third's update until 37.05. The second's gather ends at 38.75, its copy at 39.35; the third's from 38.75
  // at 40.75.
  EXPECT_DOUBLE_EQ(StepOf(inputs), 40.75 + 0.4);
}

TEST(StepTest, APeriodIsTheMeanOfItsSteps) {
  StepPlan plan{.sends = Sends::kAfterBackward, .buckets = {{{0, 1, 2}, 20}}, .period = 4};
  EXPECT_DOUBLE_EQ(StepOf(Inputs(plan)), 33 + 20 / 4.0);
}

TEST(StepTest, NoScheduleBeatsTheFloor) {
  // 20 s of link from the first gradient, at 15, on.
  EXPECT_DOUBLE_EQ(PredictStep(Inputs(Singles(Sends::kAfterBackward))).floor_s, 35);
  // 33 s of computation and 20 * 0.5 of communication on one processor.
  EXPECT_DOUBLE_EQ(PredictStep(Inputs(Singles(Sends::kAfterBackward), 0.5)).floor_s, 43);
  StepPlan parts = Singles(Sends::kAfterBackward);
  parts.updates = Updates::kParts;
  EXPECT_DOUBLE_EQ(PredictStep(Inputs(parts, 0.5)).floor_s, 41.5);
  // Half a processor: 66 s of computation; or 30 until the first gradient and 20 of the link; or 33 and 10
  // CPU-seconds. One of two ranks updates half, which saves 3 s.
  const auto on_half = [](StepPlan plan, double processor) {
    StepInputs inputs = Inputs(std::move(plan), processor);
    inputs.calibration.processors.available = 0.5;
    return PredictStep(inputs).floor_s;
  };
  EXPECT_DOUBLE_EQ(on_half(Singles(Sends::kAfterBackward), 0), 66);
  EXPECT_DOUBLE_EQ(on_half(Singles(Sends::kAfterBackward), 0.5), 86);
  EXPECT_DOUBLE_EQ(on_half(parts, 0.5), 83);
}

TEST(StepTest, ThePlainEstimateSharesNoProcessors) {
  StepInputs inputs = Inputs(Singles(Sends::kDuringBackward), 0.5);
  inputs.calibration.blocking_s = 7;
  inputs.calibration.remote_optimizer = 1;
  EXPECT_DOUBLE_EQ(PredictStep(inputs).plain_s, 38);
}

TEST(StepTest, AlikeRoundsLeaveAnIntervalToTheCalibrationAlone) {
  StepInputs inputs = Inputs(Singles(Sends::kAfterBackward));
  Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.interval.low, 53);
  EXPECT_DOUBLE_EQ(prediction.step_s.interval.high, 53);
  inputs.calibration.log_error = 0.1;
  prediction = PredictStep(inputs);
  // 20 s, a standard deviation more or less; between these the step is taken for linear.
  EXPECT_NEAR(prediction.step_s.interval.high, 33 + 20 + 1.96 * 20 * (std::exp(0.1) - 1), 0.5);
  EXPECT_NEAR(prediction.step_s.interval.low, 33 + 20 - 1.96 * 20 * (1 - std::exp(-0.1)), 0.5);
  EXPECT_NEAR(prediction.cost_s.interval.high, prediction.step_s.interval.high - 33, 1e-9);
}

// What a faster link saves is hidden behind backward; what a slower one takes longer is exposed.
TEST(StepTest, ASlowerLinkMayCostMoreThanAFasterOneSaves) {
  StepPlan plan{.sends = Sends::kDuringBackward, .buckets = {{{1, 2}, 8}}};
  StepInputs inputs = Inputs(plan);
  inputs.calibration.log_error = 0.1;
  const Prediction prediction = PredictStep(inputs);
  // From 22 to 30, when backward ends.
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 33);
  EXPECT_DOUBLE_EQ(prediction.step_s.interval.low, 33);
  EXPECT_NEAR(prediction.step_s.interval.high, 33 + 1.96 * 8 * (std::exp(0.1) - 1), 0.2);
}

TEST(StepTest, RoundsThatDifferMakeAnIntervalOfTheirMean) {
  StepInputs inputs = Inputs(Singles(Sends::kAfterBackward));
  inputs.rounds = {{}, {}};
  for (int k = 0; k < 40; ++k) {
    Round round = ARound();
    round.forward_s += k % 2 == 0 ? 1 : -1;
    inputs.rounds[0].push_back(round);
    inputs.rounds[1].push_back(round);
  }
  const Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 53);
  // 20 % trimmed means of 40 draws of +-1.
  EXPECT_NEAR(prediction.step_s.interval.high, 53.5, 0.2);
  EXPECT_NEAR(prediction.step_s.interval.low, 52.5, 0.2);
  // What all strategies have in common is not in the cost.
  EXPECT_NEAR(prediction.cost_s.interval.high, 20, 1e-9);
}

TEST(StepTest, RanksBeyondTheMeasuredOnesAreDrawn) {
  StepInputs inputs = Inputs(Singles(Sends::kAfterBackward));
  inputs.rounds = {{}, {}};
  for (int k = 0; k < 30; ++k) {
    Round round = ARound();
    round.begin_s = 1000 * k;
    if (k == 7) round.forward_s += 5;
    for (std::vector<Round>& rank : inputs.rounds) rank.push_back(round);
    inputs.rounds[1].back().begin_s += 1;
  }
  EXPECT_DOUBLE_EQ(StepOf(inputs), 53);  // trimmed
  // In every step some rank is slow, which is one that began as the last where the step is longest.
  inputs.world_size = 4096;
  EXPECT_DOUBLE_EQ(StepOf(inputs), 58);
  EXPECT_DOUBLE_EQ(TypicalStep(inputs), 58);
  inputs.world_size = 1;
  EXPECT_DOUBLE_EQ(StepOf(inputs), 53);
}

TEST(StepTest, RanksOfARoundStayTogether) {
  StepInputs inputs = Inputs({});
  inputs.rounds = {{}, {}};
  for (int k = 0; k < 20; ++k) {
    Round fast = ARound(), slow = ARound();
    slow.forward_s += 2;
    inputs.rounds[0].push_back(k % 2 == 0 ? fast : slow);
    inputs.rounds[1].push_back(k % 2 == 0 ? fast : slow);
  }
  EXPECT_DOUBLE_EQ(StepOf(inputs),
                   34);  // the mean, and not 35, which the slower of two that are drawn apart is
}

TEST(StepTest, GivesTheSameNumbersAgain) {
  StepInputs inputs = Inputs(Singles(Sends::kDuringBackward));
  inputs.calibration.log_error = 0.2;
  EXPECT_EQ(PredictStep(inputs).step_s, PredictStep(inputs).step_s);
}

TEST(StepTest, RefusesWhatDoesNotFit) {
  StepInputs inputs = Inputs(Singles(Sends::kDuringBackward));
  inputs.rounds[1][0].ready_s = {1};
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
  inputs = Inputs({.buckets = {{{3}, 10}}});
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
  inputs = Inputs({});
  inputs.rounds[1].clear();
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
  inputs.rounds.clear();
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
