#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "model/base/statistics.h"

// Estimates differences between times of strategies, by default with 95 % confidence intervals that are
// simultaneous: with a probability of 95 %, all intervals of a family (the differences that are estimated in
// one call) contain the true values.
namespace gradsync::tools {

struct Interval {
  double low = kNaN;
  double high = kNaN;

  bool is_known() const { return !std::isnan(low) && !std::isnan(high); }
  double half_width() const { return (high - low) / 2; }
  // Returns the smallest interval that contains this interval and `other`; if one of them is unknown (NaN),
  // returns the other one.
  Interval With(const Interval& other) const {
    return {std::fmin(low, other.low), std::fmax(high, other.high)};
  }
  bool operator==(const Interval&) const = default;
};

struct Estimate {
  double value = kNaN;
  Interval interval{};
  bool by_launches = false;  // the interval is wider, because launches differ by more than rounds explain

  bool operator==(const Estimate&) const = default;
};
Estimate Scaled(const Estimate& estimate, double factor);

// How much the mean times of launches (each is a new start of all processes) vary, relative to what the
// scatter of the steps within a launch explains.
struct LaunchEffect {
  double inflation = 1;  // variance of launches' means divided by the variance that rounds explain
  double degrees = std::numeric_limits<double>::infinity();  // degrees of freedom of the inflation
};

// Arguments of EstimateRounds and LeastDifferences that affect how wide their confidence intervals are.
struct Confidence {
  double chance = 0.05;        // allowed probability that at least one interval is wrong
  LaunchEffect launches = {};  // widens the intervals, unless the family itself shows more variation
};

// With fewer than kFewestForInterval measured times, 95 % intervals contain the true value in less than 95 %
// of cases, if the times are as skewed as those of training steps.
inline constexpr size_t kFewestForInterval = 10;

// In a round, each strategy is timed once. A RoundDifferences compares two strategies: for each round, it has
// the time of a step of the first (or of a part of the step) minus that of the second.
struct RoundDifferences {
  std::vector<double> values;  // by round; NaN if one of the two steps is missing
  // `divisors` is empty, or has one number for each round, such as the baseline's step time. If `divisors` is
  // not empty, the estimate is a fraction: the trimmed mean of `values` divided by that of `divisors`.
  std::vector<double> divisors{};
  // `order` is empty, or has one number for each round, by which the rounds are ordered before trimming. The
  // trimmed mean leaves out a fraction of the rounds at both ends of this order. If `order` is empty, rounds
  // are ordered by `values`.
  std::vector<double> order{};
  // A pointer that identifies the strategy whose times are subtracted. Differences with equal `base` subtract
  // the times of the same strategy, so the variation of this strategy between launches affects all of them.
  const void* base = nullptr;
};

// Returns, for each RoundDifferences of `family` (for example, one for each strategy and its baseline), the
// trimmed mean of the differences, with a confidence interval; the interval is NaN if fewer than two rounds
// remain after trimming. `launches` has the number of rounds of each launch, in order. The trimmed mean
// leaves out the fraction `trimmed` of the rounds, those with the smallest RoundDifferences::order, and as
// many rounds with the largest (by RoundDifferences::values if `order` is empty).
//
// Intervals use the standard error of a trimmed mean with Student's t (Yuen, The two-sample trimmed t for
// unequal population variances, 1974). All intervals together are correct with the probability 1 -
// Confidence::chance if the differences in `family` are independent, and with at least this probability if
// they depend on each other (Sidak, Rectangular confidence regions for the means of multivariate normal
// distributions, 1967).
//
// The means of launches may differ by more than the scatter of their rounds explains, for example because
// memory has other addresses in each launch. One significance test of all differences in `family` together
// decides whether the launches' means differ by more than this scatter explains. If the test is significant
// at 10 %, standard errors include the variation between launches. With this variation, Student's t has at
// most as many degrees of freedom as the estimate of this variation. With one launch, or fewer than two
// rounds per launch on average, the variation between launches cannot be estimated, and intervals include
// only the variation that Confidence::launches states.
std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {},
                                     double trimmed = kTrimmed);
// Returns how much the differences in `family`, between step times of strategies, vary from launch to launch.
// LaunchEffect::inflation is the variance of the differences' means over single launches, divided by the
// variance that the scatter within a launch explains; it is 1 if this quotient is below 1 or unknown.
// EstimateLaunches does not test whether a variation between launches may be chance.
LaunchEffect EstimateLaunches(std::span<const RoundDifferences> family, const std::vector<size_t>& launches);

// `family` has, for one strategy X and every other strategy, the step times of X minus those of the other.
// Returns for each of these differences a one-sided lower bound of its true value. By default, all bounds are
// correct together with a probability of 95 %, also for dependent differences (Bonferroni). So if X is the
// fastest strategy, the probability that any bound of X's differences to other strategies is above 0 is at
// most 5 % (Hsu, Constrained simultaneous confidence intervals for multiple comparisons with the best, 1984).
// A bound is NaN with fewer than two rounds. If launches differ by more than the scatter of their rounds
// explains, standard errors include the variation between launches even if it is not significant, because a
// wrong recommendation is worse than none.
std::vector<double> LeastDifferences(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {});

// The measured times of one strategy, ordered by launch. Unlike in RoundDifferences, a time is not paired
// with another strategy's time in the same round.
struct LooseSample {
  std::vector<double> values;
  std::vector<size_t> launches{};  // number of values of each launch; if empty, there is one launch
};
struct LooseComparison {
  LooseSample own;
  LooseSample base;
};

// For each LooseComparison in `family`, estimates by which fraction the trimmed mean of the times
// LooseComparison::own exceeds the trimmed mean of the times LooseComparison::base. The samples `own` and
// `base` need not come from the same rounds or runs. The intervals are Yuen's (1974), for the logarithm of
// the ratio of the two means, and simultaneous for the whole family (Sidak, 1967). An estimate is NaN if
// `own` or `base` has fewer than two values, or a value that is not positive.
//
// Standard errors include the variation between launches if, in all samples of `family` together, the means
// of launches vary more than the scatter of values within launches explains. EstimateLoose does not test
// whether this variation between launches may be chance.
std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family);

// Returns the value that the largest |z| of `count` independent standard normal numbers z exceeds with
// probability `chance`.
double SidakCritical(size_t count, double chance = 0.05);
// A standard normal number exceeds `z` with a certain probability. StudentT returns about the value that
// Student's t with `degrees` degrees of freedom exceeds with the same probability.
double StudentT(double z, double degrees);

}  // namespace gradsync::tools
