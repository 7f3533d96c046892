#include "tools/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double SumOfSquares(std::span<const double> values) {
  const double mean = Mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

double PercentileOfSorted(std::span<const double> sorted, double p) {
  const double index = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(index);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (index - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

// The fraction of a normal distribution beyond Student's t for 95 % and `n` values, widened by sqrt(n / (n -
// 1)) because a resample varies as the population of the n values does. The t is Cornish and Fisher's
// expansion.
double ExpandedTail(size_t n) {
  constexpr double kZ = 1.959963984540054;
  const double degrees = static_cast<double>(n - 1);
  const double z3 = kZ * kZ * kZ;
  const double z5 = z3 * kZ * kZ;
  const double t = kZ + (z3 + kZ) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * kZ) / (96 * degrees * degrees);
  return 0.5 * std::erfc(t * std::sqrt((degrees + 1) / degrees) / std::sqrt(2.0));
}

// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). The standard library's
// distributions may differ from one implementation to the next; this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Two numbers, uniform in [0, n) for n below 2^32.
  std::pair<size_t, size_t> TwoBelow(size_t n) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return {static_cast<size_t>(((z >> 32) * n) >> 32), static_cast<size_t>(((z & 0xffffffffU) * n) >> 32)};
  }

 private:
  uint64_t state_;
};

double ResampledSum(std::span<const double> values, Random* random) {
  double sum = 0;
  size_t left = values.size();
  for (; left >= 2; left -= 2) {
    const auto [i, j] = random->TwoBelow(values.size());
    sum += values[i] + values[j];
  }
  return left == 0 ? sum : sum + values[random->TwoBelow(values.size()).first];
}

// Of the same rounds of both, which are of one size.
std::pair<double, double> ResampledSums(std::span<const double> a, std::span<const double> b,
                                        Random* random) {
  double a_sum = 0;
  double b_sum = 0;
  const auto add = [&](size_t round) {
    a_sum += a[round];
    b_sum += b[round];
  };
  size_t left = a.size();
  for (; left >= 2; left -= 2) {
    const auto [i, j] = random->TwoBelow(a.size());
    add(i);
    add(j);
  }
  if (left > 0) add(random->TwoBelow(a.size()).first);
  return {a_sum, b_sum};
}

}  // namespace

double Mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double PopulationStd(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::sqrt(SumOfSquares(values) / static_cast<double>(values.size()));
}

double SampleStd(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  return std::sqrt(SumOfSquares(values) / static_cast<double>(values.size() - 1));
}

void Percentiles(std::span<const double> values, std::span<const double> ps, std::span<double> results) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < ps.size(); ++i) {
    results[i] = sorted.empty() ? kNaN : PercentileOfSorted(sorted, ps[i]);
  }
}

double Percentile(std::span<const double> values, double p) {
  double result = kNaN;
  Percentiles(values, {&p, 1}, {&result, 1});
  return result;
}

double Median(std::span<const double> values) { return Percentile(values, 0.5); }

size_t CountOutliers(std::span<const double> values, double mads, double min_relative) {
  if (values.empty()) return 0;
  const double median = Median(values);
  std::vector<double> distances(values.size());
  std::transform(values.begin(), values.end(), distances.begin(),
                 [median](double value) { return std::abs(value - median); });
  const double limit = std::max(mads * 1.4826 * Median(distances), min_relative * std::abs(median));
  return static_cast<size_t>(std::count_if(distances.begin(), distances.end(),
                                           [limit](double distance) { return distance > limit; }));
}

double RelativeDifference(std::span<const double> sample, std::span<const double> baseline) {
  return Mean(sample) / Mean(baseline) - 1;
}

Interval BootstrapRelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                     Pairing pairing, const BootstrapOptions& options) {
  const size_t n = std::min(sample.size(), baseline.size());
  if (n < 2 || (pairing == Pairing::kRounds && sample.size() != baseline.size())) return {kNaN, kNaN};
  const double scale = static_cast<double>(baseline.size()) / static_cast<double>(sample.size());
  Random random(options.seed);
  std::vector<double> differences(static_cast<size_t>(options.resamples));
  for (double& difference : differences) {
    const auto [sample_sum, baseline_sum] =
        pairing == Pairing::kRounds
            ? ResampledSums(sample, baseline, &random)
            : std::pair(ResampledSum(sample, &random), ResampledSum(baseline, &random));
    difference = scale * sample_sum / baseline_sum - 1;
  }
  const double tail = ExpandedTail(n);
  std::sort(differences.begin(), differences.end());
  return {PercentileOfSorted(differences, tail), PercentileOfSorted(differences, 1 - tail)};
}

}  // namespace gradsync::tools
