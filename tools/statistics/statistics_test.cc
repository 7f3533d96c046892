#include "tools/statistics/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace gradsync::tools {
namespace {

using Values = std::vector<double>;

Interval IntervalOf(const Values& sample, const Values& baseline, Pairing pairing,
                    const BootstrapOptions& options = {}) {
  const ComparedSamples pair = {sample, baseline, pairing};
  return Bootstrap(options).Simultaneous({&pair, 1})[0];
}

TEST(StatisticsTest, MeanAndDeviations) {
  const Values values = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(Mean(values), 5);
  EXPECT_DOUBLE_EQ(PopulationStd(values), 2);
  EXPECT_DOUBLE_EQ(SampleStd(values), std::sqrt(32.0 / 7));
}

TEST(StatisticsTest, TooFewValuesHaveNoStatistic) {
  EXPECT_TRUE(std::isnan(Mean({})));
  EXPECT_TRUE(std::isnan(Median({})));
  EXPECT_TRUE(std::isnan(PopulationStd({})));
  EXPECT_TRUE(std::isnan(SampleStd(Values{1})));
  EXPECT_EQ(PopulationStd(Values{1}), 0);
  EXPECT_EQ(Percentile(Values{3}, 0.99), 3);
}

TEST(StatisticsTest, PercentilesInterpolateAsNumpyDoes) {
  const Values values = {40, 15, 50, 20, 35};  // sorted: 15 20 35 40 50
  EXPECT_DOUBLE_EQ(Median(values), 35);
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 15);
  EXPECT_DOUBLE_EQ(Percentile(values, 1), 50);
  EXPECT_DOUBLE_EQ(Percentile(values, 0.4), 29);   // index 1.6: 20 + 0.6 * 15
  EXPECT_DOUBLE_EQ(Percentile(values, 0.95), 48);  // index 3.8: 40 + 0.8 * 10
  EXPECT_DOUBLE_EQ(Median(Values{1, 2, 3, 10}), 2.5);
}

TEST(StatisticsTest, OutliersAreFarFromTheMedian) {
  Values values(50, 1.0);
  for (size_t i = 0; i < values.size(); ++i) values[i] += 0.01 * static_cast<double>(i % 5);
  EXPECT_EQ(CountOutliers(values, 10, 0.05), 0u);
  values[7] = 2.0;
  values[9] = 0.1;
  EXPECT_EQ(CountOutliers(values, 10, 0.05), 2u);
  // Constant but for 1 %: the deviation is zero, and still this is no outlier.
  EXPECT_EQ(CountOutliers(Values{1, 1, 1, 1, 1.01}, 10, 0.05), 0u);
  EXPECT_EQ(CountOutliers(Values{1, 1, 1, 1, 1.5}, 10, 0.05), 1u);
  EXPECT_EQ(CountOutliers({}, 10, 0.05), 0u);
}

TEST(BootstrapTest, ConstantSamplesLeaveNoDoubt) {
  const Values sample(10, 1.1);
  const Values baseline(12, 1.0);
  EXPECT_NEAR(RelativeDifference(sample, baseline), 0.1, 1e-12);
  const Interval interval = IntervalOf(sample, baseline, Pairing::kNone);
  EXPECT_NEAR(interval.low, 0.1, 1e-12);
  EXPECT_NEAR(interval.high, 0.1, 1e-12);
}

// In every round the sample takes twice as long. Resampled by rounds there is no doubt; resampled apart there
// is.
TEST(BootstrapTest, RoundsStayTogether) {
  const Values sample = {2, 4, 6, 8, 20};
  const Values baseline = {1, 2, 3, 4, 10};
  const Interval rounds = IntervalOf(sample, baseline, Pairing::kRounds);
  EXPECT_DOUBLE_EQ(rounds.low, 1);
  EXPECT_DOUBLE_EQ(rounds.high, 1);
  const Interval apart = IntervalOf(sample, baseline, Pairing::kNone);
  EXPECT_LT(apart.low, 0.5);
  EXPECT_GT(apart.high, 2);
}

// Of ten values the interval for a mean is the resampled mean's distribution beyond 2.26 * sqrt(10/9) of its
// standard deviations, Student's t for 9 degrees of freedom.
TEST(BootstrapTest, FewValuesAreGivenStudentsMargin) {
  const Values sample = {0.90, 0.92, 0.94, 0.96, 0.98, 1.02, 1.04, 1.06, 1.08, 1.10};
  const Values baseline(10, 1.0);
  const double margin = 2.262 * SampleStd(sample) / std::sqrt(10.0);
  const Interval interval = IntervalOf(sample, baseline, Pairing::kRounds, {.resamples = 20000});
  EXPECT_NEAR(interval.low, -margin, 0.05 * margin);
  EXPECT_NEAR(interval.high, margin, 0.05 * margin);
}

// Whatever was asked before, and however many indices that takes: of the last ones too many to keep.
TEST(BootstrapTest, CallsDoNotDependOnEachOther) {
  Bootstrap bootstrap({.resamples = 1500});
  const auto again_by = [&](const Values& sample, const Values& baseline, Pairing pairing) {
    const ComparedSamples pair = {sample, baseline, pairing};
    return bootstrap.Simultaneous({&pair, 1})[0];
  };
  for (const size_t n : {size_t{7}, size_t{7}, size_t{12}, size_t{3000}, size_t{7}}) {
    Values baseline;
    for (size_t i = 0; i < n; ++i) baseline.push_back(1 + 0.1 * static_cast<double>(i * i % 11));
    Values sample = baseline;
    for (size_t i = 0; i < n; ++i) sample[i] *= 1.1 + 0.01 * static_cast<double>(i % 3);
    for (const Pairing pairing : {Pairing::kRounds, Pairing::kNone}) {
      const Interval again = again_by(sample, baseline, pairing);
      const Interval once = IntervalOf(sample, baseline, pairing, {.resamples = 1500});
      EXPECT_EQ(again.low, once.low) << n;
      EXPECT_EQ(again.high, once.high) << n;
      EXPECT_LT(again.low, 0.11) << n;
      EXPECT_GT(again.high, 0.11) << n;
    }
    const Interval twice = again_by(Values(n, 2), Values(n, 1), Pairing::kNone);
    EXPECT_DOUBLE_EQ(twice.low, 1);
    EXPECT_DOUBLE_EQ(twice.high, 1);
  }
}

TEST(BootstrapTest, WithoutABaselineThereIsNoInterval) {
  for (const double value : {0.0, 1.0}) {
    EXPECT_TRUE(std::isnan(RelativeDifference(Values(3, value), Values(3, 0))));
    for (const Pairing pairing : {Pairing::kRounds, Pairing::kNone}) {
      const Interval interval = IntervalOf(Values(3, value), Values(3, 0), pairing);
      EXPECT_TRUE(std::isnan(interval.low));
      EXPECT_TRUE(std::isnan(interval.high));
    }
  }
}

TEST(BootstrapTest, IsDeterministicAndDependsOnTheSeed) {
  const Values sample = {1.2, 1.4, 1.1, 1.9, 1.3, 1.25, 1.33};
  const Values baseline = {1.0, 1.3, 0.9, 1.6, 1.2, 1.15, 1.4};
  const auto interval = [&](uint64_t seed) {
    return IntervalOf(sample, baseline, Pairing::kRounds, {.seed = seed});
  };
  EXPECT_EQ(interval(1).low, interval(1).low);
  EXPECT_EQ(interval(1).high, interval(1).high);
  EXPECT_NE(interval(1).low, interval(2).low);
  EXPECT_NEAR(interval(1).low, interval(2).low, 0.02);
}

TEST(BootstrapTest, TooFewOrUnevenSamplesHaveNoInterval) {
  const auto low = [](const Values& sample, const Values& baseline, Pairing pairing) {
    return IntervalOf(sample, baseline, pairing).low;
  };
  EXPECT_TRUE(std::isnan(low({1}, {1}, Pairing::kRounds)));
  EXPECT_TRUE(std::isnan(low({}, {}, Pairing::kNone)));
  EXPECT_TRUE(std::isnan(low({1, 2, 3}, {1, 2}, Pairing::kRounds)));
  EXPECT_FALSE(std::isnan(low({1, 2, 3}, {1, 2}, Pairing::kNone)));
}

// Steps on a machine that drifts: both strategies of a round share the drift, the sample is `truth` slower,
// and each step has noise of its own, skewed as real steps are.
class DriftingMachine {
 public:
  explicit DriftingMachine(uint64_t seed) : random_(seed) {}

  void Measure(size_t rounds, double truth, double drift_std, Values* sample, Values* baseline) {
    std::normal_distribution<double> drift;
    std::gamma_distribution<double> noise(2, 0.01);
    sample->clear();
    baseline->clear();
    double machine = 1;
    for (size_t i = 0; i < rounds; ++i) {
      machine *= std::exp(drift_std * drift(random_));
      sample->push_back(machine * (1 + truth) * (1 + noise(random_)));
      baseline->push_back(machine * (1 + noise(random_)));
    }
  }

 private:
  std::mt19937_64 random_;
};

// How many of `sets` intervals hold the truth, and how wide they are on average.
struct Coverage {
  double fraction = 0;
  double width = 0;
};

Coverage Cover(size_t rounds, double truth, double drift_std, Pairing pairing) {
  constexpr int kSets = 400;
  DriftingMachine machine(20261121);
  Values sample;
  Values baseline;
  Coverage coverage;
  for (int set = 0; set < kSets; ++set) {
    machine.Measure(rounds, truth, drift_std, &sample, &baseline);
    const Interval interval = IntervalOf(sample, baseline, pairing, {.resamples = 1000});
    coverage.fraction += (interval.low <= truth && truth <= interval.high ? 1.0 : 0.0) / kSets;
    coverage.width += (interval.high - interval.low) / kSets;
  }
  return coverage;
}

// With 400 sets the fraction has a standard error of 1.1 %.
TEST(BootstrapTest, IntervalsHoldTheTruthAsOftenAsTheySay) {
  for (const Pairing pairing : {Pairing::kRounds, Pairing::kNone}) {
    for (const size_t rounds : {kFewestForInterval, size_t{20}, size_t{51}}) {
      for (const double truth : {0.0, -0.2}) {
        const double fraction = Cover(rounds, truth, 0, pairing).fraction;
        EXPECT_GE(fraction, 0.93) << rounds << " rounds, truth " << truth;
        EXPECT_LE(fraction, 0.98) << rounds << " rounds, truth " << truth;
      }
    }
  }
}

// How often the intervals of all pairs of `num_samples` samples hold 0 at once, where nothing differs. Rounds
// of one machine drift.
double CoverAllPairs(size_t num_samples, size_t rounds, Pairing pairing) {
  constexpr int kSets = 400;
  std::mt19937_64 random(20261121);
  const double drift_std = pairing == Pairing::kRounds ? 0.02 : 0;
  std::normal_distribution<double> drift;
  std::gamma_distribution<double> noise(2, 0.03);
  double fraction = 0;
  for (int set = 0; set < kSets; ++set) {
    std::vector<Values> samples(num_samples);
    double machine = 1;
    for (size_t i = 0; i < rounds; ++i) {
      machine *= std::exp(drift_std * drift(random));
      for (Values& sample : samples) sample.push_back(machine * (0.94 + noise(random)));
    }
    std::vector<ComparedSamples> pairs;
    for (size_t i = 0; i < num_samples; ++i) {
      for (size_t j = 0; j < i; ++j) pairs.push_back({samples[i], samples[j], pairing});
    }
    const std::vector<Interval> intervals = Bootstrap({.resamples = 1000}).Simultaneous(pairs);
    const bool do_hold = std::ranges::all_of(
        intervals, [](const Interval& interval) { return interval.low <= 0 && 0 <= interval.high; });
    fraction += (do_hold ? 1.0 : 0.0) / kSets;
  }
  return fraction;
}

// With 400 sets the fraction has a standard error of 1.1 %. By intervals of 95 % each, 15 pairs would hold
// together in less than 70 %.
TEST(SimultaneousTest, IntervalsHoldTheirTruthsAtOnce) {
  for (const Pairing pairing : {Pairing::kRounds, Pairing::kNone}) {
    for (const size_t num_samples : {size_t{2}, size_t{6}}) {
      for (const size_t rounds : {kFewestForInterval, size_t{20}, size_t{51}}) {
        const double fraction = CoverAllPairs(num_samples, rounds, pairing);
        EXPECT_GE(fraction, 0.925) << num_samples << " samples, " << rounds << " rounds";
        EXPECT_LE(fraction, 0.995) << num_samples << " samples, " << rounds << " rounds";
      }
    }
  }
}

// What is known exactly, or not at all, costs the others nothing.
TEST(SimultaneousTest, WhatIsCertainCostsNothing) {
  const Values sample = {0.90, 0.92, 0.94, 0.96, 0.98, 1.02, 1.04, 1.06, 1.08, 1.10};
  const Values baseline(10, 1.0);
  const Interval only = IntervalOf(sample, baseline, Pairing::kRounds);
  const Values twice(10, 2.0);
  const Values few = {1};
  const std::vector<ComparedSamples> all = {{twice, baseline, Pairing::kNone},
                                            {sample, baseline, Pairing::kRounds},
                                            {few, baseline, Pairing::kNone}};
  const std::vector<Interval> intervals = Bootstrap({}).Simultaneous(all);
  EXPECT_NEAR(intervals[0].low, 1, 1e-9);
  EXPECT_NEAR(intervals[0].high, 1, 1e-9);
  EXPECT_EQ(intervals[1].low, only.low);
  EXPECT_EQ(intervals[1].high, only.high);
  EXPECT_TRUE(std::isnan(intervals[2].low));
}

// Without a baseline the mean is in question, in its own unit and of any sign.
TEST(SimultaneousTest, AMeanHasAnIntervalToo) {
  const Values differences = {-0.3, -0.1, 0, 0.1, 0.3, -0.2, 0.2, 0.05, -0.05, 0};
  const ComparedSamples one = {differences, {}, Pairing::kRounds};
  const Interval interval = Bootstrap({.resamples = 20000}).Simultaneous({&one, 1})[0];
  const double margin = 2.262 * SampleStd(differences) / std::sqrt(10.0);
  EXPECT_NEAR(interval.low, -margin, 0.05 * margin);
  EXPECT_NEAR(interval.high, margin, 0.05 * margin);
}

// Launches of a program on a machine: each has something of its own for each strategy, the machine's speed
// wanders from step to step with a memory, strategies of a round take their steps one after the other, and
// each step has noise of its own, skewed as real steps are.
class Launches {
 public:
  struct Samples {
    std::vector<Values> strategies;
    std::vector<size_t> launches;
  };

  Samples Measure(size_t launches, size_t rounds, size_t strategies, double launch_std) {
    Samples samples{std::vector<Values>(strategies), std::vector<size_t>(launches, rounds)};
    for (size_t launch = 0; launch < launches; ++launch) {
      Values own;
      for (size_t i = 0; i < strategies; ++i) {
        // That of one differs more than that of the others, and of one less.
        const double scale = strategies == 2 ? 1 : i == 0 ? 1.5 : i == 1 ? 0.5 : 1;
        own.push_back(std::exp(scale * launch_std * normal_(random_)));
      }
      double drift = 0;
      for (size_t round = 0; round < rounds; ++round) {
        for (size_t i = 0; i < strategies; ++i) {
          drift = 0.95 * drift + 0.02 * normal_(random_);
          samples.strategies[i].push_back(std::exp(drift) * own[i] * (1 + noise_(random_)));
        }
      }
    }
    return samples;
  }

 private:
  std::mt19937_64 random_{20261122};
  std::normal_distribution<double> normal_;
  std::gamma_distribution<double> noise_{2, 0.01};
};

// How often the intervals of all pairs hold 0 at once, where the strategies do not differ but by launch.
double CoverLaunches(size_t launches, size_t rounds, size_t strategies, double launch_std,
                     bool knows_launches = true) {
  constexpr int kSets = 400;
  Launches machine;
  double fraction = 0;
  for (int set = 0; set < kSets; ++set) {
    const Launches::Samples samples = machine.Measure(launches, rounds, strategies, launch_std);
    std::vector<ComparedSamples> pairs;
    for (size_t i = 0; i < strategies; ++i) {
      for (size_t j = 0; j < i; ++j) {
        pairs.push_back({samples.strategies[i], samples.strategies[j], Pairing::kRounds, samples.launches});
        if (!knows_launches) pairs.back().launches = {};
      }
    }
    const std::vector<Interval> intervals = Bootstrap({.resamples = 500}).Simultaneous(pairs);
    const bool do_hold = std::ranges::all_of(
        intervals, [](const Interval& interval) { return interval.low <= 0 && 0 <= interval.high; });
    fraction += (do_hold ? 1.0 : 0.0) / kSets;
  }
  return fraction;
}

// With 400 sets the fraction has a standard error of 1.1 %. Where launches do not differ, intervals are wider
// than they need to be.
TEST(SimultaneousTest, IntervalsHoldTheTruthOfLaunches) {
  std::printf("launches rounds strategies launch noise  coverage\n");
  for (const size_t launches : {size_t{3}, size_t{5}, size_t{10}}) {
    for (const size_t strategies : {size_t{2}, size_t{4}, size_t{7}}) {
      for (const double launch_std : {0.0, 0.01, 0.05}) {
        const double fraction = CoverLaunches(launches, 10, strategies, launch_std);
        std::printf("%8zu %6d %10zu %11.0f %%  %6.1f %%\n", launches, 10, strategies, 100 * launch_std,
                    100 * fraction);
        EXPECT_GE(fraction, 0.925);
      }
    }
  }
  // Steps of several launches taken for those of one hold far less than they say.
  const double pooled = CoverLaunches(5, 10, 2, 0.05, false);
  std::printf("the same 5 launches of 2 strategies and 5 %% noise, as one: %.1f %%\n", 100 * pooled);
  EXPECT_LT(pooled, 0.7);
}

// What does not differ from launch to launch is found all the same.
TEST(SimultaneousTest, SeveralLaunchesShowADifferenceOfATenth) {
  Launches machine;
  int shown = 0;
  for (int set = 0; set < 100; ++set) {
    Launches::Samples samples = machine.Measure(5, 10, 2, 0.01);
    for (double& value : samples.strategies[0]) value *= 1.1;
    const ComparedSamples pair = {samples.strategies[0], samples.strategies[1], Pairing::kRounds,
                                  samples.launches};
    shown += Bootstrap({.resamples = 500}).Simultaneous({&pair, 1})[0].low > 0 ? 1 : 0;
  }
  EXPECT_GE(shown, 95);
}

TEST(SimultaneousTest, NothingTakesLessThanNoTime) {
  const Values sample = {0.1, 0.1, 0.2, 3, 0.1, 0.2, 0.1, 0.1, 0.3, 0.1};
  const Values baseline = {1, 2, 1, 3, 9, 1, 2, 1, 1, 20};
  const ComparedSamples pair = {sample, baseline, Pairing::kNone};
  const Interval interval = Bootstrap({}).Simultaneous({&pair, 1})[0];
  const double difference = RelativeDifference(sample, baseline);
  EXPECT_GT(interval.low, -1);
  EXPECT_LT(difference - (interval.high - difference), -1);  // as a symmetric one would
}

TEST(SimultaneousTest, ManyComparisonsNeedMore) {
  DriftingMachine machine(20261121);
  std::vector<Values> samples(20);
  std::vector<Values> baselines(20);
  std::vector<ComparedSamples> pairs;
  for (size_t i = 0; i < samples.size(); ++i) {
    machine.Measure(20, 0, 0, &samples[i], &baselines[i]);
    pairs.push_back({samples[i], baselines[i], Pairing::kRounds});
  }
  const auto width = [&](size_t count) {
    const Interval interval = Bootstrap({}).Simultaneous({pairs.data(), count})[0];
    return interval.high - interval.low;
  };
  // 20 of them: 3.0 standard errors of a normal distribution instead of 1.96, 3.5 of Student's instead
  // of 2.1.
  EXPECT_NEAR(width(20) / width(1), 3.5 / 2.1, 0.1);
}

TEST(BootstrapTest, DriftSharedByARoundDoesNotWidenTheInterval) {
  const Coverage steady = Cover(20, 0.05, 0, Pairing::kRounds);
  const Coverage drifting = Cover(20, 0.05, 0.05, Pairing::kRounds);
  const Coverage apart = Cover(20, 0.05, 0.05, Pairing::kNone);
  EXPECT_GE(drifting.fraction, 0.93);
  EXPECT_LE(drifting.fraction, 0.98);
  EXPECT_NEAR(drifting.width, steady.width, 0.05 * steady.width);
  EXPECT_GT(apart.width, 5 * drifting.width);
}

}  // namespace
}  // namespace gradsync::tools
