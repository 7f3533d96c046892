#include "tools/predict/step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/error.h"

// Steps are computed by hand in each test; all times are whole seconds for legibility.
namespace gradsync::tools {
namespace {

using enum CollectiveKind;

LinkCosts ASecondForEachByte(double processor) {
  return LinkCosts({{kAllReduce, 1, 1, 1, processor}, {kAllReduce, 1, 100, 100, processor}});
}

// Forward 10, backward 20, optimizer 3. Three parameters of 4, 6 and 10 bytes, ready after 18, 12 and 5.
Round ARound() { return {.forward_s = 10, .backward_s = 20, .optimizer_s = 3, .ready_s = {18, 12, 5}}; }

StepInputs Inputs(std::vector<PlannedBucket> buckets, double processor = 0) {
  return {.buckets = std::move(buckets),
          .rounds = {{ARound()}, {ARound()}},
          .link = ASecondForEachByte(processor)};
}

std::vector<PlannedBucket> Singles() { return {{{2}, 10}, {{1}, 6}, {{0}, 4}}; }
// All in one, which is sent when backward has ended but for 2 s: 28 to 48.
std::vector<PlannedBucket> Whole() { return {{{0, 1, 2}, 20}}; }

double StepOf(const StepInputs& inputs) { return PredictStep(inputs).step_s.value; }

TEST(StepTest, WithoutSynchronisationIsTheSumOfItsPhases) {
  StepInputs inputs = Inputs({});
  inputs.rounds[1][0].rest_s = 2;
  const Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 35);
  EXPECT_DOUBLE_EQ(prediction.none_s, 35);
  EXPECT_DOUBLE_EQ(prediction.floor_s, 35);
}

TEST(StepTest, OverlapsFromTheFirstReadyGradientOn) {
  // Issued at 15, 22 and 28; the link is busy from 15 to 25, 25 to 31, 31 to 35.
  const Prediction prediction = PredictStep(Inputs(Singles()));
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 35 + 3);
  EXPECT_DOUBLE_EQ(prediction.exposed_s, 5);
}

TEST(StepTest, ABucketIsReadyWithItsLastGradientAndWaitsForThoseBefore) {
  // The first bucket is complete at 10 + 18; the second, ready before, goes behind it.
  EXPECT_DOUBLE_EQ(StepOf(Inputs({{{0, 1}, 10}, {{2}, 10}})), 28 + 20 + 3);
}

TEST(StepTest, SharesProcessorsDuringBackward) {
  // One bucket at 10 + 18 = 28, beside the last 2 s of backward, which take 3; 2 of 20 s are done at 31.
  const Prediction prediction = PredictStep(Inputs(Whole(), 0.5));
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 31 + 18 + 3);
  EXPECT_DOUBLE_EQ(prediction.exposed_s, 18);
}

TEST(StepTest, TheLastRankOfEachBucketDecides) {
  StepInputs inputs = Inputs(Singles());
  inputs.rounds[1][0].ready_s = {18, 15, 5};
  inputs.rounds[0][0].forward_s = 12;
  // Rank 0 issues at 17, 24, 30 and rank 1 at 15, 25, 28: links from 17 to 27, 27 to 33, 33 to 37.
  EXPECT_DOUBLE_EQ(StepOf(inputs), 37 + 3);
}

TEST(StepTest, NoScheduleBeatsTheFloor) {
  // 20 s of link from the first gradient, at 15, on.
  EXPECT_DOUBLE_EQ(PredictStep(Inputs(Whole())).floor_s, 35);
  // 33 s of computation and 20 * 0.5 of communication on one processor.
  EXPECT_DOUBLE_EQ(PredictStep(Inputs(Whole(), 0.5)).floor_s, 43);
  // Half a processor: 66 s of computation; or 30 until the first gradient and 20 of the link; or 33 and 10
  // CPU-seconds.
  const auto on_half = [](double processor) {
    StepInputs inputs = Inputs(Whole(), processor);
    inputs.processors.available = 0.5;
    return PredictStep(inputs).floor_s;
  };
  EXPECT_DOUBLE_EQ(on_half(0), 66);
  EXPECT_DOUBLE_EQ(on_half(0.5), 86);
}

TEST(StepTest, AlikeRoundsLeaveAnIntervalToTheLinkAlone) {
  StepInputs inputs = Inputs(Whole());
  Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.interval.low, 51);
  EXPECT_DOUBLE_EQ(prediction.step_s.interval.high, 51);
  inputs.log_error = 0.1;
  prediction = PredictStep(inputs);
  // 20 s, a standard deviation more or less; between these the step is taken for linear.
  EXPECT_NEAR(prediction.step_s.interval.high, 51 + 1.96 * 20 * (std::exp(0.1) - 1), 0.5);
  EXPECT_NEAR(prediction.step_s.interval.low, 51 - 1.96 * 20 * (1 - std::exp(-0.1)), 0.5);
}

// What a faster link saves is hidden behind backward; what a slower one takes longer is exposed.
TEST(StepTest, ASlowerLinkMayCostMoreThanAFasterOneSaves) {
  StepInputs inputs = Inputs({{{1, 2}, 8}});
  inputs.log_error = 0.1;
  const Prediction prediction = PredictStep(inputs);
  // From 22 to 30, when backward ends.
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 33);
  EXPECT_DOUBLE_EQ(prediction.step_s.interval.low, 33);
  EXPECT_NEAR(prediction.step_s.interval.high, 33 + 1.96 * 8 * (std::exp(0.1) - 1), 0.2);
}

TEST(StepTest, RoundsThatDifferMakeAnIntervalOfTheirMean) {
  StepInputs inputs = Inputs(Whole());
  inputs.rounds = {{}, {}};
  for (int k = 0; k < 40; ++k) {
    Round round = ARound();
    round.forward_s += k % 2 == 0 ? 1 : -1;
    inputs.rounds[0].push_back(round);
    inputs.rounds[1].push_back(round);
  }
  const Prediction prediction = PredictStep(inputs);
  EXPECT_DOUBLE_EQ(prediction.step_s.value, 51);
  // 20 % trimmed means of 40 draws of +-1.
  EXPECT_NEAR(prediction.step_s.interval.high, 51.5, 0.2);
  EXPECT_NEAR(prediction.step_s.interval.low, 50.5, 0.2);
}

TEST(StepTest, RanksBeyondTheMeasuredOnesAreDrawn) {
  StepInputs inputs = Inputs(Whole());
  inputs.rounds = {{}, {}};
  for (int k = 0; k < 30; ++k) {
    Round round = ARound();
    round.begin_s = 1000 * k;
    if (k == 7) round.forward_s += 5;
    for (std::vector<Round>& rank : inputs.rounds) rank.push_back(round);
    inputs.rounds[1].back().begin_s += 1;
  }
  EXPECT_DOUBLE_EQ(StepOf(inputs), 51);  // trimmed
  // In every step some rank is slow, which is one that began as the last where the step is longest.
  inputs.world_size = 4096;
  EXPECT_DOUBLE_EQ(StepOf(inputs), 56);
  inputs.world_size = 1;
  EXPECT_DOUBLE_EQ(StepOf(inputs), 51);
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
  StepInputs inputs = Inputs(Singles());
  inputs.log_error = 0.2;
  EXPECT_EQ(PredictStep(inputs).step_s, PredictStep(inputs).step_s);
}

TEST(StepTest, RefusesWhatDoesNotFit) {
  StepInputs inputs = Inputs(Singles());
  inputs.rounds[1][0].ready_s = {1};
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
  inputs = Inputs({{{3}, 10}});
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
  inputs = Inputs({});
  inputs.rounds[1].clear();
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
  inputs.rounds.clear();
  EXPECT_THROW(PredictStep(inputs), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
