#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace gradsync {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// All functions return NaN if there are no values or too few for the statistic.
double Mean(std::span<const double> values);
// Divides by n, like the reference tables and numpy's default.
double PopulationStd(std::span<const double> values);

// Returns the value below which the fraction `p`, from 0 to 1, of the values lies: linear interpolation
// between the order statistics around index p * (n - 1). This is type 7 of Hyndman and Fan (1996), the
// default of numpy and R. With fewer than 1 / (1 - p) values it is close to the maximum.
double Percentile(std::span<const double> values, double p);
double Median(std::span<const double> values);

// The fraction of a sample that is removed at each end. estimates_test.cc has the reason.
inline constexpr double kTrimmed = 0.2;

// Returns the mean of the values that remain after removing the fraction `trimmed` at each end. A few
// disturbed steps do not change it much.
double TrimmedMean(std::span<const double> values, double trimmed = kTrimmed);

// Returns the number of values whose distance from the median exceeds both `mads` scaled median absolute
// deviations (1.4826 * MAD, the standard deviation of a normal distribution) and the fraction `min_relative`
// of the median. The second bound is for samples with little variation.
size_t CountOutliers(std::span<const double> values, double mads, double min_relative);

}  // namespace gradsync
