#include "tools/statistics/estimates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace gradsync::tools {
namespace {

using Values = std::vector<double>;

double HalfWidth(const Estimate& estimate) { return (estimate.interval.high - estimate.interval.low) / 2; }

// The same on every machine.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  double Uniform() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  size_t Below(size_t n) { return static_cast<size_t>(Uniform() * static_cast<double>(n)); }
  double Normal() {
    return std::sqrt(-2 * std::log(1 - Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

Values NormalValues(size_t count, Draws* draws) {
  Values values(count);
  for (double& value : values) value = draws->Normal();
  return values;
}

TEST(EstimatesTest, CriticalValuesAreThoseOfTheTables) {
  EXPECT_NEAR(SidakCritical(1), 1.959964, 1e-5);
  EXPECT_NEAR(SidakCritical(2), 2.236477, 1e-5);
  EXPECT_NEAR(SidakCritical(10), 2.799625, 1e-4);
  EXPECT_NEAR(SidakCritical(1, 5), 2.575829, 1e-5);
  EXPECT_NEAR(StudentT(1.959964, 5), 2.5706, 0.02);
  EXPECT_NEAR(StudentT(1.959964, 30), 2.0423, 0.005);
}

TEST(EstimatesTest, WhatNeverVariesLeavesNoDoubt) {
  const RoundDifferences twice{Values(12, 3.0), Values(12, 3.0)};
  const Estimate estimate = EstimateRounds({&twice, 1}, {12})[0];
  EXPECT_EQ(estimate, (Estimate{1, {1, 1}}));
}

TEST(EstimatesTest, TooFewRoundsHaveNoInterval) {
  const RoundDifferences one{Values{3}};
  const Estimate estimate = EstimateRounds({&one, 1}, {1})[0];
  EXPECT_EQ(estimate.value, 3);
  EXPECT_FALSE(estimate.interval.is_known());
}

// Yuen's interval for a trimmed mean: 20 values, 12 kept, Student's t with 11 degrees of freedom.
TEST(EstimatesTest, TheErrorIsThatOfATrimmedMean) {
  RoundDifferences differences;
  for (int i = 0; i < 20; ++i) differences.values.push_back(i < 19 ? i : 1000);
  const Estimate estimate = EstimateRounds({&differences, 1}, {20})[0];
  EXPECT_DOUBLE_EQ(estimate.value, 9.5);
  // Winsorized: 4 x 4, 4 ... 15, 4 x 15. Its sum of squares around 9.5 is 2 (5 x 5.5^2 + 4.5^2 + ... +
  // 0.5^2).
  const double squares = 2 * (5 * 5.5 * 5.5 + 4.5 * 4.5 + 3.5 * 3.5 + 2.5 * 2.5 + 1.5 * 1.5 + 0.5 * 0.5);
  const double error = std::sqrt(squares / 19) / (0.6 * std::sqrt(20.0));
  EXPECT_NEAR(HalfWidth(estimate), 2.201 * error, 0.03 * error);
}

TEST(EstimatesTest, RoundsThatAreMissingDoNotCount) {
  const double nan = std::nan("");
  const RoundDifferences some{Values{1, nan, 2, 3, nan, 4}, Values{1, nan, 1, 1, nan, 1}};
  const RoundDifferences whole{Values{1, 2, 3, 4}, Values{1, 1, 1, 1}};
  EXPECT_DOUBLE_EQ(EstimateRounds({&some, 1}, {6})[0].value, EstimateRounds({&whole, 1}, {4})[0].value);
}

// A part of a difference is taken over the rounds that the whole keeps, so parts add up.
TEST(EstimatesTest, PartsAddUp) {
  Draws draws(1);
  const Values a = NormalValues(30, &draws), b = NormalValues(30, &draws);
  Values whole(30);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = a[i] + b[i];
  const std::vector<RoundDifferences> family = {{whole}, {a, {}, whole}, {b, {}, whole}};
  const std::vector<Estimate> estimates = EstimateRounds(family, {30});
  EXPECT_NEAR(estimates[0].value, estimates[1].value + estimates[2].value, 1e-12);
  EXPECT_GT(HalfWidth(estimates[1]), 0);
}

// Of one base as many as there are, of two bases as many as each has.
TEST(EstimatesTest, AFamilyHasSidaksMargin) {
  Draws draws(2);
  std::vector<RoundDifferences> family(10, {NormalValues(400, &draws)});
  const double one = HalfWidth(EstimateRounds(std::span(family).first(1), {400})[0]);
  EXPECT_NEAR(HalfWidth(EstimateRounds(family, {400})[0]) / one, SidakCritical(10) / SidakCritical(1), 0.01);
  for (size_t i = 0; i < 5; ++i) family[i].base = 7;
  for (const Estimate& estimate : EstimateRounds(family, {400})) {
    EXPECT_NEAR(HalfWidth(estimate) / one, SidakCritical(5) / SidakCritical(1), 0.01);
  }
}

// Rounds say one thing within each launch and another in the next: then there are three samples, whatever the
// number of rounds.
TEST(EstimatesTest, LaunchesThatDifferWidenTheInterval) {
  Draws draws(7);
  std::vector<RoundDifferences> alike;
  for (int i = 0; i < 6; ++i) alike.push_back({NormalValues(60, &draws)});
  EXPECT_LT(HalfWidth(EstimateRounds(alike, {20, 20, 20})[0]),
            1.1 * HalfWidth(EstimateRounds(alike, {60})[0]));
  RoundDifferences apart = alike[0];
  for (size_t i = 0; i < 60; ++i) apart.values[i] += 3 * (static_cast<double>(i / 20) - 1);
  // Means 3 apart: a standard error of 3 / sqrt(3), times the t of two degrees of freedom.
  EXPECT_GT(HalfWidth(EstimateRounds({&apart, 1}, {20, 20, 20})[0]), 4.3 * std::sqrt(3));
  EXPECT_LT(HalfWidth(EstimateRounds({&apart, 1}, {60})[0]), 1.5);
}

TEST(EstimatesTest, LaunchesOfOneRoundAreRounds) {
  const RoundDifferences differences{Values{3, 1, 2, 5, 4, 6}};
  EXPECT_EQ(EstimateRounds({&differences, 1}, std::vector<size_t>(6, 1)),
            EstimateRounds({&differences, 1}, {6}));
}

TEST(EstimatesTest, TheCoefficientIsWhatRoundsAndVariantsLeave) {
  Draws draws(4);
  std::vector<Values> steps(3, Values(40)), forwards = steps;
  for (size_t i = 0; i < 40; ++i) {
    const double drift = draws.Normal();
    for (size_t k = 0; k < 3; ++k) {
      const double wander = draws.Normal();
      forwards[k][i] = 30 + 5 * static_cast<double>(k) + drift + wander;
      steps[k][i] = 100 + 9 * static_cast<double>(k) + 7 * drift + 1.9 * wander;
    }
  }
  EXPECT_NEAR(CommonCoefficient(steps, forwards), 1.9, 1e-9);
  EXPECT_EQ(CommonCoefficient({steps[0]}, {forwards[0]}), 0);
  EXPECT_EQ(CommonCoefficient(steps, std::vector<Values>(3, Values(40, 1.0))), 0);
}

TEST(EstimatesTest, LooseSamplesAreComparedByTheirRatio) {
  const LooseComparison same{{Values(12, 1.1)}, {Values(10, 1.0)}};
  EXPECT_NEAR(EstimateLoose({&same, 1})[0].interval.low, 0.1, 1e-12);
  const LooseComparison negative{{Values(12, -1)}, {Values(10, 1.0)}};
  EXPECT_TRUE(std::isnan(EstimateLoose({&negative, 1})[0].value));
}

// Of the logarithm: as many standard errors as Sidak's for the whole family, and no more.
TEST(EstimatesTest, ALooseFamilyHasSidaksMargin) {
  Draws draws(5);
  std::vector<LooseComparison> family;
  for (int i = 0; i < 5; ++i) {
    LooseComparison& comparison = family.emplace_back();
    for (int value = 0; value < 400; ++value) {
      comparison.own.values.push_back(100 + draws.Normal());
      comparison.base.values.push_back(100 + draws.Normal());
    }
  }
  const auto log_width = [](const Estimate& estimate) {
    return std::log1p(estimate.interval.high) - std::log1p(estimate.interval.low);
  };
  const double one = log_width(EstimateLoose({family.data(), 1})[0]);
  EXPECT_NEAR(log_width(EstimateLoose(family)[0]) / one, SidakCritical(5) / SidakCritical(1), 0.01);
}

// One launch says nothing of the next: here launches differ by 10 %, steps by 1 %.
TEST(EstimatesTest, LooseLaunchesAreLaunches) {
  Draws draws(6);
  const auto sample = [&](const Values& means) {
    LooseSample loose;
    for (const double mean : means) {
      for (int i = 0; i < 20; ++i) loose.values.push_back(mean * (1 + 0.01 * draws.Normal()));
      loose.launches.push_back(20);
    }
    return loose;
  };
  const LooseComparison one{sample({100}), sample({110})},
      several{sample({100, 120, 110}), sample({110, 125, 105})};
  EXPECT_GT(EstimateLoose({&several, 1})[0].interval.high, 0);
  EXPECT_LT(EstimateLoose({&one, 1})[0].interval.high, 0);
}

// What is left of steps and of their forwards, in thousandths of a step, once the medians of rounds and of
// variants are taken out: round after round, and in it step and forward of each of 13 variants, which stay
// together because a disturbance lasts. From the records in docs/records: a launch of `tiny`, and one of
// `small`, where a step takes ten times as long and there are ten rounds.
constexpr size_t kMeasuredVariants = 13;
constexpr int kTiny[] = {
    -41,  -22, -5,   -29, -9,  -14, 7,    -2,  199,  44,  0,    0,   -1,   33,  13,   -24, 8,    3,
    144,  10,  -6,   3,   -62, -21, 25,   9,   0,    -18, -116, 31,  36,   0,   -18,  1,   110,  22,
    -6,   12,  -77,  -7,  81,  26,  27,   -1,  -29,  -11, -9,   19,  262,  0,   46,   -7,  364,  153,
    -312, -5,  0,    34,  414, 413, -60,  0,   51,   -15, -73,  -6,  136,  155, 9,    0,   -143, -7,
    -59,  -13, -112, -5,  63,  84,  15,   1,   -234, -9,  0,    5,   3,    1,   -20,  -1,  111,  -9,
    -9,   -5,  -91,  -8,  19,  10,  -22,  3,   4,    0,   -62,  -4,  26,   1,   -74,  -10, 47,   -24,
    -19,  18,  5,    20,  10,  -4,  -88,  -6,  62,   11,  -62,  9,   28,   18,  0,    0,   -15,  -1,
    -119, -4,  38,   13,  -15, 7,   15,   130, 389,  143, -59,  -8,  2,    2,   -151, -27, 0,    -6,
    -83,  -12, 371,  144, 6,   41,  38,   -16, -1,   0,   -77,  -20, 0,    9,   56,   23,  172,  164,
    -4,   -17, 52,   1,   46,  -13, -72,  -14, -65,  -13, -42,  -25, -5,   0,   -36,  -24, 36,   27,
    30,   0,   10,   2,   29,  -13, 131,  130, -7,   12,  -8,   -3,  0,    27,  22,   5,   24,   -12,
    -6,   2,   -64,  -21, 38,  0,   -6,   -8,  -51,  -22, -4,   -2,  2,    23,  26,   -11, -15,  -5,
    25,   39,  -72,  -4,  49,  51,  0,    -9,  7,    1,   -2,   11,  15,   5,   -64,  0,   -29,  -6,
    -29,  5,   173,  -32, 0,   46,  -43,  -8,  -25,  -3,  18,   -2,  -87,  -12, 121,  4,   20,   -8,
    -114, 0,   -28,  11,  23,  9,   55,   3,   9,    -6,  -155, -16, 168,  120, 24,   0,   12,   -5,
    0,    0,   -23,  -4,  -38, 57,  10,   3,   -3,   -1,  12,   3,   -67,  -2,  -16,  16,  -53,  -18,
    100,  -5,  0,    0,   152, 40,  -7,   -17, 493,  297, 80,   3,   -17,  16,  -66,  -31, 51,   7,
    8,    -8,  -43,  4,   -48, -12, 16,   -6,  -57,  -19, -80,  -32, 0,    0,   5,    28,  141,  7,
    -44,  -19, 26,   2,   64,  2,   0,    0,   10,   19,  -31,  -6,  -21,  -17, 24,   14,  -73,  10,
    -3,   23,  4,    15,  0,   -2,  -73,  -7,  -49,  -9,  -98,  -4,  36,   24,  10,   -4,  -22,  -4,
    106,  5,   17,   0,   -58, -14, -2,   21,  484,  138, 83,   -6,  0,    0,   453,  156, 96,   91,
    -80,  -19, -39,  -1,  431, 155, 0,    -8,  -25,  2,   98,   -9,  0,    -5,  -124, 23,  -29,  -25,
    163,  -12, -24,  -12, 76,  27,  -110, -15, 226,  99,  25,   4,   -33,  10,  -9,   -10, 22,   6,
    14,   0,   55,   0,   -77, -6,  -7,   -13, -51,  -1,  -3,   -2,  40,   12,  -10,  -1,  -118, -2,
    75,   7,   9,    24,  38,  8,   69,   17,  0,    3,   11,   0,   -124, -1,  -18,  -25, -50,  -16,
    15,   4,   -165, -26, 62,  58,  -43,  -21, -48,  -3,  133,  37,  0,    0,   0,    13,  84,   33,
    37,   -4,  -185, -21, -54, -31, 86,   4,   0,    0,   -81,  0,   0,    18,  -96,  5,   49,   2,
    -111, -21, 476,  403, 21,  -16, -3,   15,  1,    -1,  -8,   -6,  34,   -12, 48,   -2,  0,    0,
    39,   13,  19,   4,   -12, -7,  14,   17,  -61,  11,  -27,  0,   -71,  12,  0,    15,  -11,  -9,
    590,  132, 124,  42,  -1,  -37, -71,  -41, 217,  0,   -1,   -7,  -27,  -11, 0,    -1,  484,  131,
    79,   4,   3,    26,  -8,  0,   355,  118, 363,  126, -53,  -24, 14,   -20, 0,    -13, -89,  -13,
    -50,  -8,  292,  118, -3,  0,   -10,  20,  10,   21,  280,  159, -58,  -11, 91,   12,  -110, -3,
    56,   5,   233,  61,  -24, 0,   -84,  -8,  40,   1,   275,  46,  -66,  -33, -112, -15, -28,  -15,
    346,  431, 0,    -5,  23,  16,  109,  -8,  -99,  -18, -63,  1,   -43,  -4,  357,  141, 0,    -15,
    -11,  0,   24,   8,   29,  12,  -63,  -7,  -71,  -30, 12,   5,   -30,  -17, 103,  -4,  -81,  -36,
    0,    12,  -17,  -12, -12, -2,  20,   3,   113,  9,   -35,  -12, 43,   7,   19,   0,   79,   30,
    -17,  1,   -9,   27,  13,  2,   -20,  0,   335,  339, -32,  5,   5,    -3,  0,    -3,  11,   -1,
    -16,  -7,  -67,  -14, 95,  3,   3,    0,   -35,  -4};
constexpr int kSmall[] = {
    38,   0,   -72,  -1,  -172, -18, 12,  40,  60,  5,   -44,  6,   -136, -8,  248, 116, 0,    21,  -11, -7,
    112,  17,  32,   -12, -120, -8,  59,  -2,  -5,  14,  57,   89,  -160, -42, 20,  0,   318,  125, 325, 187,
    -22,  72,  11,   -20, -15,  -4,  -36, -16, -14, 20,  0,    -7,  35,   18,  -74, -1,  -126, -14, 63,  11,
    -40,  -15, 58,   9,   51,   28,  2,   -2,  103, 58,  -79,  -14, -26,  -9,  -96, 0,   0,    1,   46,  2,
    -45,  -10, 35,   7,   -77,  -17, 84,  -1,  78,  -8,  -28,  -3,  -43,  8,   275, 69,  282,  132, -46, -7,
    0,    4,   -8,   0,   -23,  0,   -4,  3,   61,  100, -130, 10,  -74,  -4,  -33, -11, 159,  -3,  12,  0,
    0,    -10, 366,  120, -119, 0,   40,  3,   29,  0,   0,    -2,  24,   -1,  115, 0,   -33,  -31, 5,   17,
    41,   -6,  -42,  3,   6,    56,  -45, -8,  -44, 5,   13,   0,   -16,  -3,  -16, 18,  53,   0,   21,  8,
    -57,  -14, -30,  -1,  72,   -10, -14, 1,   -56, -8,  0,    2,   -26,  -21, 74,  -4,  -3,   4,   3,   4,
    94,   49,  0,    47,  38,   -1,  21,  -5,  49,  27,  -12,  -2,  -10,  0,   48,  10,  -6,   -10, -94, -23,
    -80,  -24, 202,  77,  18,   40,  -35, 2,   -37, -6,  143,  18,  -17,  0,   297, 27,  62,   21,  -2,  -6,
    -120, -23, 2,    -5,  50,   5,   -29, 21,  10,  1,   -26,  -1,  0,    0,   -43, 1,   114,  0,   -32, -2,
    -3,   -17, -119, -9,  0,    -10, 59,  34,  44,  17,  -100, -7,  91,   -13, 170, 20,  3,    43,  -6,  49};

// How a simulated run is made, and estimated.
struct Setting {
  std::span<const int> residuals = kTiny;
  std::vector<size_t> launches;
  double launch_std = 0;  // of each variant's launches, in thousandths of a step
  double trimmed = kTrimmed;
  bool uses_forward = true;
  // Looks after the second launch, and each that follows, whether all intervals are this narrow, in per cent.
  double precision = 0;
  size_t looks = 1;
};
struct Score {
  double covered = 0;         // of all comparisons
  double family_covered = 0;  // runs in which all intervals hold the truth
  double half_width = 0;      // mean, in per cent of a step
  double shown = 0;           // of the comparisons with an effect
  double false_alarms = 0;    // of those without
  double launches = 0;        // mean
};

constexpr double kStep = 1000, kEffect = 80;  // 8 % of the step; every other variant has it
constexpr size_t kVariants = 7;

// Steps and forwards by variant and round: rounds that are drawn from measured ones, each with its residuals
// dealt out anew, and a machine that drifts, in trend and in waves, which is the same for all variants of a
// round.
struct Run {
  std::vector<Values> steps, forwards;
};
Run Simulate(const Setting& setting, Draws* draws) {
  Run run{std::vector<Values>(kVariants), std::vector<Values>(kVariants)};
  double walk = 0;
  for (const size_t size : setting.launches) {
    Values own(kVariants);
    for (double& effect : own) effect = setting.launch_std * draws->Normal();
    for (size_t i = 0; i < size; ++i) {
      walk += 7 * draws->Normal();
      const double drift = walk + 80 * std::sin(static_cast<double>(i) / 7);
      const size_t round = draws->Below(setting.residuals.size() / (2 * kMeasuredVariants));
      std::array<size_t, kMeasuredVariants> dealt;
      std::iota(dealt.begin(), dealt.end(), round * kMeasuredVariants);
      for (size_t k = 0; k < kVariants; ++k) {
        std::swap(dealt[k], dealt[k + draws->Below(dealt.size() - k)]);
        const auto residual = setting.residuals.subspan(2 * dealt[k], 2);
        run.steps[k].push_back(kStep + drift + own[k] + (k % 2 == 1 ? kEffect : 0) + residual[0]);
        run.forwards[k].push_back(0.25 * kStep + 0.3 * drift + residual[1]);
      }
    }
  }
  return run;
}

std::vector<Estimate> EstimatesAfter(size_t num_launches, const Run& all, const Setting& setting) {
  const std::vector<size_t> launches(setting.launches.begin(),
                                     setting.launches.begin() + static_cast<std::ptrdiff_t>(num_launches));
  Run run = all;
  for (auto* const values : {&run.steps, &run.forwards}) {
    for (Values& own : *values) own.resize(std::accumulate(launches.begin(), launches.end(), size_t{0}));
  }
  const double coefficient = setting.uses_forward ? CommonCoefficient(run.steps, run.forwards) : 0;
  std::vector<RoundDifferences> family(kVariants - 1);
  for (size_t k = 1; k < kVariants; ++k) {
    for (size_t i = 0; i < run.steps[k].size(); ++i) {
      family[k - 1].values.push_back(run.steps[k][i] - run.steps[0][i] -
                                     coefficient * (run.forwards[k][i] - run.forwards[0][i]));
    }
  }
  return EstimateRounds(family, launches, setting.looks, setting.trimmed);
}

Score ScoreOf(const Setting& setting, int runs) {
  Draws draws(20261122);
  Score score;
  double comparisons = 0, with_effect = 0;
  for (int r = 0; r < runs; ++r) {
    const Run run = Simulate(setting, &draws);
    std::vector<Estimate> estimates;
    const size_t planned = setting.launches.size();
    for (size_t launches = setting.precision > 0 ? 2 : planned; launches <= planned; ++launches) {
      estimates = EstimatesAfter(launches, run, setting);
      const double widest = 100 / kStep * std::ranges::max(estimates | std::views::transform(HalfWidth));
      if (widest > setting.precision && launches < planned) continue;
      score.launches += static_cast<double>(launches) / runs;
      break;
    }
    bool are_all = true;
    for (size_t k = 1; k < kVariants; ++k) {
      const double truth = k % 2 == 1 ? kEffect : 0;
      const Interval& interval = estimates[k - 1].interval;
      const bool is_covered = interval.low <= truth && truth <= interval.high;
      const bool is_shown = interval.low > 0 || interval.high < 0;
      score.covered += is_covered;
      are_all &= is_covered;
      score.half_width += 100 / kStep * HalfWidth(estimates[k - 1]);
      (truth > 0 ? score.shown : score.false_alarms) += is_shown;
      with_effect += truth > 0;
      ++comparisons;
    }
    score.family_covered += are_all;
  }
  score.covered /= comparisons;
  score.family_covered /= runs;
  score.half_width /= comparisons;
  score.shown /= with_effect;
  score.false_alarms /= comparisons - with_effect;
  return score;
}

void Print(const std::string& name, const Score& score) {
  std::printf("%-44s covered %.3f, families %.3f, half-width %5.2f %%, shown %.2f, false alarms %.3f\n",
              name.c_str(), score.covered, score.family_covered, score.half_width, score.shown,
              score.false_alarms);
}

constexpr int kRuns = 3000;

// Of six comparisons, three with an effect: what is printed is what docs/reading.md may claim. Of 3,000 runs,
// 95 % is 94.2 to 95.8 %. `small` has ten rounds to draw from, and its noisy ones are noisy for all variants:
// of few rounds, few say how much they vary.
TEST(SimulationTest, IntervalsHoldTheTruth) {
  for (const std::vector<size_t>& launches :
       std::vector<std::vector<size_t>>{{10}, {12}, {28}, {84}, {28, 28}, {28, 28, 28}}) {
    for (const auto& [name, residuals, least] : {std::tuple{"tiny", std::span<const int>(kTiny), 0.942},
                                                 {"small", std::span<const int>(kSmall), 0.93}}) {
      const Score score = ScoreOf({.residuals = residuals, .launches = launches}, kRuns);
      Print(absl::StrFormat("%s, %d launches of %d rounds", name, launches.size(), launches[0]), score);
      EXPECT_GE(score.covered, 0.985) << name;
      EXPECT_GE(score.family_covered, least) << name;
      EXPECT_LE(score.false_alarms, 0.015) << name;
    }
  }
}

// By more than the rounds within them explain: with a standard deviation of 1.25 % of a step, 2.5 and 5 %.
TEST(SimulationTest, IntervalsHoldTheTruthWhereLaunchesDiffer) {
  for (const double launch_std : {12.5, 25.0, 50.0}) {
    for (const std::vector<size_t>& launches :
         std::vector<std::vector<size_t>>{{28, 28}, {28, 28, 28}, {14, 14, 14, 14}}) {
      const Score score = ScoreOf({.launches = launches, .launch_std = launch_std}, kRuns);
      Print(absl::StrFormat("%d launches that differ by %.2f %%", launches.size(), launch_std / 10), score);
      EXPECT_GE(score.covered, 0.965) << launch_std;
      EXPECT_GE(score.family_covered, 0.86) << launch_std;
    }
  }
}

// A run that ends once its intervals are narrow enough ends when they are too narrow, above all where
// launches differ (here by 1.25 %). Planned looks make up for that.
TEST(SimulationTest, IntervalsHoldTheTruthWhereverARunEnds) {
  const auto score = [](double launch_std, size_t looks) {
    Score ended = ScoreOf(
        {.launches = {14, 14, 14, 14}, .launch_std = launch_std, .precision = 5, .looks = looks}, kRuns);
    Print(absl::StrFormat("%d looks, ends after %.1f of 4 launches", looks, ended.launches), ended);
    return ended;
  };
  EXPECT_GE(score(0, 3).family_covered, 0.942);
  EXPECT_GE(score(12.5, 3).family_covered, 0.942);
  EXPECT_LT(score(12.5, 1).family_covered, 0.942);
}

// Why the location is a mean trimmed by a fifth, and forward a covariate.
TEST(SimulationTest, NoOtherEstimatorIsNarrowerAndHolds) {
  const Score chosen = ScoreOf({.launches = {28}}, kRuns);
  Print("trimmed by a fifth, with forward", chosen);
  EXPECT_GE(chosen.family_covered, 0.942);
  for (const double trimmed : {0.0, 0.1, 0.2, 0.3, 0.45}) {
    for (const bool uses_forward : {false, true}) {
      if (trimmed == kTrimmed && uses_forward) continue;
      const Score other =
          ScoreOf({.launches = {28}, .trimmed = trimmed, .uses_forward = uses_forward}, kRuns);
      Print(absl::StrFormat("trimmed by %.2f%s", trimmed, uses_forward ? ", with forward" : ""), other);
      EXPECT_TRUE(other.half_width > 0.95 * chosen.half_width || other.family_covered < 0.942) << trimmed;
    }
  }
}

}  // namespace
}  // namespace gradsync::tools
