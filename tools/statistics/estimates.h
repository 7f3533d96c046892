#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "model/base/statistics.h"

// Estimates differences with simultaneous 95 % intervals: with a probability of 95 %, all intervals of a
// family contain the true values.
namespace gradsync::tools {

struct Interval {
  double low = kNaN;
  double high = kNaN;

  bool is_known() const { return !std::isnan(low) && !std::isnan(high); }
  double half_width() const { return (high - low) / 2; }
  // Returns the smallest interval that contains both intervals. An unknown interval is ignored.
  Interval With(const Interval& other) const {
    return {std::fmin(low, other.low), std::fmax(high, other.high)};
  }
  bool operator==(const Interval&) const = default;
};

// NaN: unknown.
struct Estimate {
  double value = kNaN;
  Interval interval{};
  bool by_launches = false;  // launches were the samples, because launches differ by more than rounds explain

  bool operator==(const Estimate&) const = default;
};
// Multiplies the value and both ends of the interval.
Estimate Scaled(const Estimate& estimate, double factor);

// The variation between launches in addition to the variation of rounds.
struct LaunchEffect {
  double inflation = 1;  // variance between launches divided by the variance that rounds explain
  double degrees = std::numeric_limits<double>::infinity();  // degrees of freedom of the inflation
};

// The confidence of the intervals of a family.
struct Confidence {
  double chance = 0.05;        // probability that at least one interval is wrong
  LaunchEffect launches = {};  // variation between launches, unless the family itself shows more
};

// The smallest number of samples with which 95 % intervals contain the true value in 95 % of cases, for
// samples that are as skewed as times of steps.
inline constexpr size_t kFewestForInterval = 10;

// A difference in every round of a run: the step of one strategy minus the step of another strategy.
struct RoundDifferences {
  std::vector<double> values;  // differences by round; NaN if one of the two steps is missing
  // Divisors by round; if empty, the difference is estimated, else the ratio of difference and divisor.
  std::vector<double> divisors{};
  // Rounds are trimmed in this order; if empty, rounds are trimmed by their values.
  std::vector<double> order{};
  // Identifies the base of the difference. The base also contributes to the variation between launches.
  const void* base = nullptr;
};

// Returns the trimmed mean of each difference, over the rounds that `order` does not trim, and its interval.
// NaN with fewer than two rounds. `launches` has the number of rounds of each launch, in order.
//
// Intervals use the standard error of a trimmed mean with Student's t (Yuen, The two-sample trimmed t for
// unequal population variances, 1974). In 95 of 100 cases all intervals of the family are correct together.
// The width of the intervals is the width for independent differences; dependent differences need no more
// (Sidak, Rectangular confidence regions for the means of multivariate normal distributions, 1967).
//
// Rounds are nested in launches, and launches may differ (for example in memory addresses or ports). A test
// over all differences compares the variation of the variants' means between launches with the variation that
// rounds explain. If the difference is significant at 10 %, launches are the samples: standard errors are
// larger, and Student's t has the degrees of freedom of launches. estimates_test.cc prints how often
// intervals are then correct. With one launch, the variation between launches is unknown.
//
// `looks` is the planned number of times that a run checks whether its intervals are narrow enough to end.
// Each check has an equal share of the error probability (Bonferroni), so intervals are correct at any check
// that ends the run.
std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {},
                                     double trimmed = kTrimmed);
// Estimates how much launches vary in addition to rounds, also if this variation may be chance.
LaunchEffect EstimateLaunches(std::span<const RoundDifferences> family, const std::vector<size_t>& launches);

// Returns a one-sided lower bound for each difference of the family. The differences are X - Y for one row X
// and each other row Y. In 95 of 100 cases all bounds are correct together, also for dependent differences
// (Bonferroni). So if X is the fastest row, a bound is above 0 in at most 5 of 100 cases (Hsu, Constrained
// simultaneous confidence intervals for multiple comparisons with the best, 1984). NaN with fewer than two
// rounds. A wrong choice is worse than no choice, so launches are the samples if they differ by more than
// rounds explain, even if the difference may be chance.
std::vector<double> LeastDifferences(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {});

// Values that are not paired with the values of another sample, ordered by launch.
struct LooseSample {
  std::vector<double> values;
  std::vector<size_t> launches{};  // number of values of each launch; if empty, all values are of one launch
};
struct LooseComparison {
  LooseSample own;
  LooseSample base;
};

// Estimates the relative difference of the trimmed means of two samples that were taken one after the other,
// or by different programs. Uses Yuen's t for the logarithm of their ratio, with a critical value for the
// whole family (Sidak, 1967). NaN if a side has fewer than two values, or values that are not positive.
//
// Launches are the samples if their means vary more than values explain, over all samples together. Each
// sample counts once, also if several samples are compared with it.
std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family);

// Returns the critical value that the largest of `count` independent |z| exceeds with probability `chance`.
double SidakCritical(size_t count, double chance = 0.05);
// Returns the value of Student's t, with `degrees` degrees of freedom, that corresponds to `z` of a normal
// distribution.
double StudentT(double z, double degrees);

}  // namespace gradsync::tools
