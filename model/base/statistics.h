#ifndef GRADSYNC_MODEL_BASE_STATISTICS_H_
#define GRADSYNC_MODEL_BASE_STATISTICS_H_

#include <cstddef>
#include <limits>
#include <span>

namespace gradsync {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// All of these return NaN for no values, and where a sample is too small to have the statistic.
double Mean(std::span<const double> values);
// Divides by n: what the reference tables print, and numpy's default.
double PopulationStd(std::span<const double> values);

// The value below which the fraction `p`, from 0 to 1, of the values lies: linear interpolation between the
// order statistics around index p * (n - 1), which is type 7 of Hyndman and Fan (1996), and the default of
// numpy and R. With fewer than 1 / (1 - p) values this is an interpolation close to the maximum.
double Percentile(std::span<const double> values, double p);
double Median(std::span<const double> values);

// The part of a sample that is left out at each of its two ends. See estimates_test.cc for the reason.
inline constexpr double kTrimmed = 0.2;

// The mean of what is left: a location that a few disturbed steps do not move.
double TrimmedMean(std::span<const double> values, double trimmed = kTrimmed);

// How many values lie further from the median than both `mads` scaled median absolute deviations (1.4826 *
// MAD, the standard deviation of a normal distribution) and the fraction `min_relative` of the median. The
// second bound is for samples that hardly vary, where the first one means nothing.
size_t CountOutliers(std::span<const double> values, double mads, double min_relative);

}  // namespace gradsync

#endif  // GRADSYNC_MODEL_BASE_STATISTICS_H_
