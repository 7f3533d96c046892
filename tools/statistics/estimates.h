#ifndef GRADSYNC_TOOLS_STATISTICS_ESTIMATES_H_
#define GRADSYNC_TOOLS_STATISTICS_ESTIMATES_H_

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "tools/statistics/statistics.h"

// Differences with 95 % intervals that hold all at once.
namespace gradsync::tools {

struct Interval {
  double low = kNaN;
  double high = kNaN;

  bool is_known() const { return !std::isnan(low) && !std::isnan(high); }
  double half_width() const { return (high - low) / 2; }
  // The smallest interval that holds both; an unknown one adds nothing.
  Interval With(const Interval& other) const {
    return {std::fmin(low, other.low), std::fmax(high, other.high)};
  }
  bool operator==(const Interval&) const = default;
};

// NaN: unknown.
struct Estimate {
  double value = kNaN;
  Interval interval{};
  bool by_launches = false;  // launches were its samples, because they differ by more than rounds explain

  bool operator==(const Estimate&) const = default;
};
// With all ends.
Estimate Scaled(const Estimate& estimate, double factor);

// From here on an interval holds the truth as often as it says, for samples as skewed as steps are.
inline constexpr size_t kFewestForInterval = 10;

// A difference that was taken in every round of a run: one strategy's step less another's.
struct RoundDifferences {
  std::vector<double> values;  // by round; NaN: one of the two did not take part
  std::vector<double>
      divisors{};               // by round; empty: the difference itself is estimated, else its part of these
  std::vector<double> order{};  // by round: which rounds are extreme; empty: those with extreme values
  size_t base = 0;              // what it is a difference to: takes part in what launches have of their own
};

// The trimmed mean of each difference (of the rounds that `order` leaves), and its interval. NaN with fewer
// than two rounds. `launches`: how many rounds each launch has, one after the other.
//
// The standard error is that of a trimmed mean, with Student's t (Yuen, The two-sample trimmed t for unequal
// population variances, 1974). All intervals of the family hold at once in 95 cases of 100: they reach as
// many standard errors to both sides as that many independent ones need, and dependent ones need no more
// (Sidak, Rectangular confidence regions for the means of multivariate normal distributions, 1967).
//
// Rounds are nested in launches, and a launch may have something of its own (where memory lay, how ports
// fell). Where the variants' means in launches vary more than rounds explain, over all differences together,
// and by more than is chance in one case of ten, launches are the samples: errors are as much larger, and
// Student's t has their degrees of freedom. estimates_test.cc says how often intervals then hold. With one
// launch nothing is known of the next.
//
// `looks`: how many times, planned beforehand, a run looks whether its intervals are narrow enough to end.
// Each look has an equal share of the 5 cases of 100 (Bonferroni), so intervals hold at whichever it ends.
std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, size_t looks = 1,
                                     double trimmed = kTrimmed);

// The coefficient of a covariate that variants have in common: the median slope between two rounds of one
// variant, less the means of all variants in these rounds (Sen, Estimates of the regression coefficient based
// on Kendall's tau, 1968), which a few disturbed steps do not move. `values` and `covariates` by variant and
// round; rounds with a NaN do not count. 0 where there is nothing to learn it from.
double CommonCoefficient(const std::vector<std::vector<double>>& values,
                         const std::vector<std::vector<double>>& covariates);

// Which variants' values do not differ but by chance. Ranks within rounds are compared (Friedman, The use of
// ranks to avoid the assumption of normality, 1937), because what disturbs a step moves means far. The
// variant whose ranks add up to the largest statistic leaves while that is larger than the largest of as many
// independent ones is in one case of ten (Sidak, 1967): one that differs does not hide among many that do
// not. None is left where more than a sixth of them, or the last but one, would leave. `references` are part
// of many differences, so then each of them leaves that alone differs from all that are left by more than is
// chance in one case of ten. Rounds with a NaN do not count.
std::vector<bool> FindAlike(const std::vector<std::vector<double>>& values,
                            const std::vector<size_t>& references = {});

// Values that nothing ties to another sample's, launch after launch.
struct LooseSample {
  std::vector<double> values;
  std::vector<size_t> launches{};  // how many each has; empty: all are of one
};
struct LooseComparison {
  LooseSample own;
  LooseSample base;
};

// The relative difference of trimmed means of samples that were taken one after the other, or by different
// programs: Yuen's t for the logarithm of their ratio, as many standard errors as hold for the whole family
// (Sidak, 1967). NaN with fewer than two values on a side, or values that are not positive.
//
// `are_alike`: whether samples' launches differ alike, beside how values do. Then launches are the samples
// where their means vary more than values explain, over all samples together; each counts once, however many
// are compared with it. Else the launches of each sample, if it has several, are
// its own, and two of them tell next to nothing.
std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family, bool are_alike = true);

// What the largest of `count` independent |z| stays below in all cases but this part.
double SidakCritical(size_t count, double chance = 0.05);
// What `z` standard errors of a normal distribution are of Student's t with so many degrees of freedom.
double StudentT(double z, double degrees);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STATISTICS_ESTIMATES_H_
