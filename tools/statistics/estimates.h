#ifndef GRADSYNC_TOOLS_STATISTICS_ESTIMATES_H_
#define GRADSYNC_TOOLS_STATISTICS_ESTIMATES_H_

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "model/base/statistics.h"

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

// What launches have of their own: by how much more the means of launches vary than rounds explain.
struct LaunchEffect {
  double inflation = 1;                                      // of a variance
  double degrees = std::numeric_limits<double>::infinity();  // of freedom, with which it is known
};

// What the intervals of a family are for.
struct Confidence {
  double chance = 0.05;        // that one of them does not hold
  LaunchEffect launches = {};  // what launches have of their own, unless the family itself shows more
};

// From here on an interval holds the truth as often as it says, for samples as skewed as steps are.
inline constexpr size_t kFewestForInterval = 10;

// A difference that was taken in every round of a run: one strategy's step less another's.
struct RoundDifferences {
  std::vector<double> values;  // by round; NaN: one of the two did not take part
  std::vector<double>
      divisors{};               // by round; empty: the difference itself is estimated, else its part of these
  std::vector<double> order{};  // by round: which rounds are extreme; empty: those with extreme values
  // What it is a difference to, which only tells bases apart: takes part in what launches have of their own.
  const void* base = nullptr;
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
// What looks several times, as planned beforehand, gives each look its share of the 5 cases of 100
// (Bonferroni).
std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {},
                                     double trimmed = kTrimmed);
// What the launches of a family have of their own, be it by chance.
LaunchEffect EstimateLaunches(std::span<const RoundDifferences> family, const std::vector<size_t>& launches);

// By how much each difference of the family is at least above 0, as these are X - Y for one X and each rival
// Y: one-sided bounds, which hold all at once in 95 cases of 100, whatever the differences have in common
// (Bonferroni). So if X takes least, one of them is above 0 in at most 5 cases of 100 (Hsu, Constrained
// simultaneous confidence intervals for multiple comparisons with the best, 1984). NaN with fewer than two
// rounds. A wrong choice is worse than none: launches are the samples where they differ by more than rounds
// explain, be it by chance.
std::vector<double> LeastDifferences(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence = {});

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
// LaunchEffect are the samples where their means vary more than values explain, over all samples together;
// each counts once, however many are compared with it.
std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family);

// What the largest of `count` independent |z| stays below in all cases but this part.
double SidakCritical(size_t count, double chance = 0.05);
// What `z` standard errors of a normal distribution are of Student's t with so many degrees of freedom.
double StudentT(double z, double degrees);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STATISTICS_ESTIMATES_H_
