#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace gradsync {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// All functions of this file that return a double return NaN if `values` is empty.
double Mean(std::span<const double> values);
// Returns the standard deviation of `values`, dividing by their number, as numpy.std does by default.
double PopulationStd(std::span<const double> values);

// Returns the value below which about the fraction `p` (0 to 1) of the n `values` lies. Percentile
// interpolates linearly between the two sorted values around index p * (n - 1), as numpy and R do by default.
// If 2 <= n < 1 / (1 - p), the result lies between the two largest values.
double Percentile(std::span<const double> values, double p);
double Median(std::span<const double> values);

// The fraction of the values that TrimmedMean removes by default at the low end, and again at the high end.
// In tools/statistics/estimates_test.cc, simulations with 0.2 and with other fractions show why the default
// is 0.2.
inline constexpr double kTrimmed = 0.2;

// Leaves out the fraction `trimmed` (below 0.5) of all values at the low end, and the same fraction at the
// high end. Returns the mean of the remaining values. The number of values removed at each end is rounded
// down. With the default kTrimmed, nothing is removed from fewer than five values.
double TrimmedMean(std::span<const double> values, double trimmed = kTrimmed);

// Returns the number of values whose distance from the median is more than mads * 1.4826 * MAD and also more
// than min_relative * |median|. MAD is the median absolute deviation; 1.4826 * MAD estimates the standard
// deviation of normally distributed values. If the values hardly vary, MAD is tiny, and only the bound
// min_relative * |median| keeps CountOutliers from counting values near the median.
size_t CountOutliers(std::span<const double> values, double mads, double min_relative);

}  // namespace gradsync
