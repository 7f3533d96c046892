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

// In a round, each strategy is timed once. A RoundDifferences has, for each round, the time of one strategy's
// step (or of a part of it, such as backward) minus the time of another strategy's step.
struct RoundDifferences {
  std::vector<double> values;  // by round; NaN if one of the two steps is missing
  // `divisors` is empty, or has one number for each round, such as the baseline's step time. If `divisors` is
  // not empty, the estimate is a fraction: the trimmed mean of `values` divided by that of `divisors`.
  std::vector<double> divisors{};
  // If `order` is not empty, order[i] is the sort key of round i: the rounds are sorted by it before
  // trimming. The trimmed mean leaves out a fraction of the rounds at both ends of this order. If `order` is
  // empty, rounds are sorted by `values`.
  std::vector<double> order{};
  // Identifies the strategy whose times are subtracted in `values`. If several RoundDifferences have the same
  // `base`, the variation of this strategy between launches affects all of them.
  const void* base = nullptr;
};

// Returns, for each RoundDifferences of `family` (for example, one for each strategy and its baseline), the
// trimmed mean of the differences, with a confidence interval; the interval is NaN if fewer than two rounds
// remain after trimming. `launches` has the number of rounds of each launch, in order. For the trimmed mean,
// rounds are sorted by RoundDifferences::order (by RoundDifferences::values if `order` is empty). At the
// beginning and at the end of this order, the fraction `trimmed` of all rounds is left out.
//
// Intervals use the standard error of a trimmed mean with Student's t (Yuen, The two-sample trimmed t for
// unequal population variances, 1974). If the differences are independent, the probability that all intervals
// contain the true values is 1 - Confidence::chance (Sidak, Rectangular confidence regions for the means of
// multivariate normal distributions, 1967). For differences that depend on each other, the probability is at
// least 1 - Confidence::chance.
//
// The means of launches may differ by more than the scatter of their rounds explains, for example because
// memory has other addresses in each launch. One significance test of all differences in `family` together
// decides whether the launches' means differ by more than this scatter explains. If the test is significant
// at 10 %, standard errors include the variation between launches. The variation between launches cannot be
// estimated if there is only one launch, or if there are fewer than two rounds per launch on average. In both
// cases, intervals include only the variation that the caller passes in Confidence::launches.
std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {},
                                     double trimmed = kTrimmed);
// Estimates how much step-time differences vary between launches (starts of all ranks). Each element of
// `family` has the differences of one pair of strategies. LaunchEffect::inflation is the variance of the
// launches' mean differences, divided by the variance that the scatter of the rounds within each launch
// explains. LaunchEffect::inflation is 1 if the quotient is below 1 or unknown. EstimateLaunches does not
// test whether a variation between launches may be chance.
LaunchEffect EstimateLaunches(std::span<const RoundDifferences> family, const std::vector<size_t>& launches);

// Each element of `family` has, for each round, the step time of a strategy X minus that of another strategy;
// X is the same in all elements. Returns, for each element, a lower bound of the true difference. By default,
// the probability that all bounds are at most the true differences is at least 95 % (Bonferroni). So if X is
// the fastest strategy, at least one of the bounds is above 0 with a probability of at most 5 % (Hsu,
// Constrained simultaneous confidence intervals for multiple comparisons with the best, 1984). A bound is NaN
// with fewer than two rounds. Standard errors always include the variation between launches; EstimateRounds
// includes it only if a test finds it significant.
std::vector<double> LeastDifferences(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {});

// The measured times of one strategy, ordered by launch but not paired with times of another strategy.
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
// the ratio of the two means, and simultaneous for the whole family (Sidak, 1967). An estimate is NaN if its
// sample `own` or `base` has fewer than two values, or a value of 0 or below.
//
// Standard errors include the variation between launches if, in all samples of `family` together, the means
// of launches vary more than the scatter of values within launches explains. EstimateLoose does not test
// whether this variation between launches may be chance.
std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family);

// Returns the value that the largest |z| of `count` independent standard normal numbers z exceeds with
// probability `chance`.
double SidakCritical(size_t count, double chance = 0.05);
// Returns an approximation of the value that Student's t with `degrees` degrees of freedom exceeds with the
// same probability as a standard normal number exceeds `z`.
double StudentT(double z, double degrees);

}  // namespace gradsync::tools
