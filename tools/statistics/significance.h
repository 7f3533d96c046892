#ifndef GRADSYNC_TOOLS_STATISTICS_SIGNIFICANCE_H_
#define GRADSYNC_TOOLS_STATISTICS_SIGNIFICANCE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "tools/statistics/statistics.h"

// Whether a difference is more than chance: what a claim over many rows needs, where intervals of 95 % would
// each be wrong once in twenty.
namespace gradsync::tools {

// The probability beyond |t| on both sides, of Student's distribution with `degrees` of freedom.
double StudentTwoSided(double t, double degrees);

// What a t test needs of a sample. `std` divides by n - 1.
struct Moments {
  double mean = 0;
  double std = 0;
  size_t n = 0;
};
Moments MomentsOf(std::span<const double> values);

// How probable so large a difference would be if mean(sample) were (1 + relative) mean(baseline): two-sided
// p-value of Welch's t test (The generalization of Student's problem, 1947), which does not assume that both
// vary alike. NaN if either has fewer than two values.
double WelchPValue(const Moments& sample, const Moments& baseline, double relative = 0);

// The same; with kRounds, by the rounds' own differences. NaN where BootstrapRelativeDifference has none.
double DifferencePValue(std::span<const double> sample, std::span<const double> baseline, Pairing pairing,
                        double relative = 0);

// p-values adjusted for their number (Holm, A simple sequentially rejective multiple test procedure, 1979):
// taking those below 0.05 as shown is wrong anywhere among them in at most one case in twenty, whatever
// depends on what. NaN stays, and does not count.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STATISTICS_SIGNIFICANCE_H_
