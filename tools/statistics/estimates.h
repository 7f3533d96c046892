#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "model/base/statistics.h"

// Estimates differences between times of strategies, with simultaneous confidence intervals. By default, all
// intervals of one call together contain the true values with a probability of about 95 % or more.
namespace gradsync::tools {

struct Interval {
  double low = kNaN;
  double high = kNaN;

  bool is_known() const { return !std::isnan(low) && !std::isnan(high); }
  double half_width() const { return (high - low) / 2; }
  // Returns the smallest interval that contains both intervals; an unknown (NaN) interval is ignored.
  Interval With(const Interval& other) const {
    return {std::fmin(low, other.low), std::fmax(high, other.high)};
  }
  bool operator==(const Interval&) const = default;
};

struct Estimate {
  double value = kNaN;
  Interval interval{};
  bool by_launches = false;  // true if the interval includes variation between launches

  bool operator==(const Estimate&) const = default;
};
Estimate Scaled(const Estimate& estimate, double factor);

// How much the mean times of launches (starts of all processes) vary.
struct LaunchEffect {
  double inflation = 1;  // variance of launches' means / that expected from the steps' scatter; at least 1
  double degrees = std::numeric_limits<double>::infinity();  // degrees of freedom of the inflation
};

// Settings that determine how wide confidence intervals are.
struct Confidence {
  double chance = 0.05;        // allowed probability that at least one interval misses the true value
  LaunchEffect launches = {};  // least variation between launches that the intervals include
};

// With fewer measured times than kFewestForInterval, 95 % intervals of step times contain the true value in
// less than 95 % of cases.
inline constexpr size_t kFewestForInterval = 10;

// In each round, every strategy is timed once. A RoundDifferences has, for each round, the time of one
// strategy minus the time of another strategy.
struct RoundDifferences {
  std::vector<double> values;  // by round; NaN if one of the two times is missing
  // Empty, or one number for each round, such as the baseline's step time. If `divisors` is not empty, the
  // estimate is the trimmed mean of `values` divided by the trimmed mean of `divisors`.
  std::vector<double> divisors{};
  // One sort key for each round; if `order` is empty, the keys are `values`. The trimmed mean of `values`
  // leaves out the rounds with the smallest and the largest keys.
  std::vector<double> order{};
  // Identifies the strategy whose times are subtracted: equal pointers mean the same strategy. The pointer is
  // never dereferenced.
  const void* base = nullptr;
};

// Returns, for each element of `family`, the trimmed mean of its differences, with a confidence interval.
// `launches` has the number of rounds of each launch, in order. The trimmed mean ignores rounds whose value
// is NaN. Of the other rounds in sorted order, the trimmed mean leaves out the fraction `trimmed`, rounded
// down to whole rounds, at each end. An interval is NaN if fewer than two rounds remain after trimming.
//
// Intervals use Student's t and the standard error of a trimmed mean (Yuen, The two-sample trimmed t for
// unequal population variances, 1974). All intervals together contain the true values with a probability of
// about 1 - Confidence::chance or more (Sidak, Rectangular confidence regions for the means of multivariate
// normal distributions, 1967). If a test at the level of 10 % shows that launches vary, the intervals become
// wider.
std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {},
                                     double trimmed = kTrimmed);
// Returns how much the differences in `family` vary between launches (starts of all processes).
LaunchEffect EstimateLaunches(std::span<const RoundDifferences> family, const std::vector<size_t>& launches);

// The elements of `family` have the step times of one strategy X minus those of each other strategy. Returns
// a lower bound of each true difference. By default, all bounds are below the true differences with a
// probability of about 95 % or more (Bonferroni). A bound above 0 shows that X is not the fastest strategy
// (Hsu, Constrained simultaneous confidence intervals for multiple comparisons with the best, 1984). The
// bound of an element is NaN if fewer than two of the element's RoundDifferences::values are not NaN.
std::vector<double> LeastDifferences(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {});

// The measured times of one strategy, ordered by launch, and not paired with another strategy's times.
struct LooseSample {
  std::vector<double> values;
  std::vector<size_t> launches{};  // number of values of each launch; empty: one launch
};
struct LooseComparison {
  LooseSample own;
  LooseSample base;
};

// For each element of `family`, estimates m / n - 1, where m is the trimmed mean of the times `own`, and n is
// the trimmed mean of the times `base`. The intervals are Yuen's (1974), for the logarithm of m / n, and
// simultaneous for the whole family (Sidak, 1967). An estimate is NaN if `own` or `base` has fewer than two
// values, a value not above 0, or a launch without values.
std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family);

// Returns the value that the largest |z| of `count` independent standard normal numbers z exceeds with
// probability `chance`.
double SidakCritical(size_t count, double chance = 0.05);
// Converts the quantile `z` >= 0 of the standard normal distribution to a quantile of Student's t with
// `degrees` degrees of freedom. The result has approximately the tail probability of `z`.
double StudentT(double z, double degrees);

}  // namespace gradsync::tools
