#include "model/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace gradsync {
namespace {

std::vector<double> Sorted(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace

double Mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double PopulationStd(std::span<const double> values) {
  if (values.empty()) return kNaN;
  const double mean = Mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double Percentile(std::span<const double> values, double p) {
  if (values.empty()) return kNaN;
  const std::vector<double> sorted = Sorted(values);
  const double index = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(index);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (index - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

double Median(std::span<const double> values) { return Percentile(values, 0.5); }

double TrimmedMean(std::span<const double> values, double trimmed) {
  const std::vector<double> sorted = Sorted(values);
  const auto cut = static_cast<size_t>(trimmed * static_cast<double>(sorted.size()));
  return Mean(std::span(sorted).subspan(cut, sorted.size() - 2 * cut));
}

size_t CountOutliers(std::span<const double> values, double mads, double min_relative) {
  if (values.empty()) return 0;
  const double median = Median(values);
  std::vector<double> distances(values.size());
  std::ranges::transform(values, distances.begin(),
                         [median](double value) { return std::abs(value - median); });
  const double limit = std::max(mads * 1.4826 * Median(distances), min_relative * std::abs(median));
  return static_cast<size_t>(
      std::ranges::count_if(distances, [limit](double distance) { return distance > limit; }));
}

}  // namespace gradsync
