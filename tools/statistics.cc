#include "tools/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Resamples whose sums are taken together, one in each lane of some vector registers.
constexpr size_t kLanes = 16;
// More counts than these, 16 MiB, are drawn anew for each interval, a block at a time.
constexpr size_t kMostKept = size_t{2} << 20;

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

// Puts only so many in order as lie on the nearer side of it, and are few for the tail of an interval.
double PercentileOfAny(std::span<double> values, double p) {
  const double index = p * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(index);
  const size_t above = std::min(below + 1, values.size() - 1);
  const auto at = [&](size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  if (p < 0.5) {
    std::partial_sort(values.begin(), at(above) + 1, values.end());
  } else {
    std::partial_sort(values.rbegin(), std::make_reverse_iterator(at(below)), values.rend(),
                      std::greater<>());
  }
  return values[below] + (index - static_cast<double>(below)) * (values[above] - values[below]);
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

// Adds a resample of `n` values to the counts of its lane.
void CountDraws(size_t n, Random* random, double* counts_of_lane) {
  for (size_t i = 0; i < n; i += 2) {
    const auto [first, second] = random->TwoBelow(n);
    counts_of_lane[first * kLanes] += 1;
    if (i + 1 < n) counts_of_lane[second * kLanes] += 1;
  }
}

// Resamples of the sample and, apart from it, of the baseline; none of that where rounds are drawn, which
// both have in common. In each lane the baseline's first.
void DrawBlock(size_t sample_size, size_t baseline_size, Random* random, std::span<double> counts) {
  std::fill(counts.begin(), counts.end(), 0.0);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    CountDraws(baseline_size, random, &counts[lane]);
    CountDraws(sample_size, random, &counts[baseline_size * kLanes + lane]);
  }
}

// The sum of a resample is that of the values, each times how often it was drawn.
std::array<double, kLanes> SumsOf(std::span<const double> values, const double* counts) {
  std::array<double, kLanes> sums{};
  for (const double value : values) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += counts[lane] * value;
    counts += kLanes;
  }
  return sums;
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

Interval Bootstrap::RelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                       Pairing pairing) {
  const size_t n = std::min(sample.size(), baseline.size());
  if (n < 2 || (pairing == Pairing::kRounds && sample.size() != baseline.size())) return {kNaN, kNaN};
  const Shape shape{sample.size(), pairing == Pairing::kRounds ? 0 : baseline.size()};
  const size_t num_resamples = static_cast<size_t>(options_.resamples);
  const size_t num_blocks = (num_resamples + kLanes - 1) / kLanes;
  const size_t block_size = (shape.apart + shape.sample_size) * kLanes;
  const bool keeps = num_blocks * block_size <= kMostKept;
  const bool is_drawn = keeps && shape == kept_;
  kept_ = keeps ? shape : Shape{};
  counts_.resize(keeps ? num_blocks * block_size : block_size);
  Random random(options_.seed);
  const double scale = static_cast<double>(baseline.size()) / static_cast<double>(sample.size());
  differences_.clear();
  for (size_t block = 0; block < num_blocks; ++block) {
    double* const counts = counts_.data() + (keeps ? block * block_size : 0);
    if (!is_drawn) DrawBlock(shape.sample_size, shape.apart, &random, {counts, block_size});
    const auto sample_sums = SumsOf(sample, counts + shape.apart * kLanes);
    const auto baseline_sums = SumsOf(baseline, counts);
    const size_t num_lanes = std::min(kLanes, num_resamples - block * kLanes);
    for (size_t lane = 0; lane < num_lanes; ++lane) {
      differences_.push_back(scale * sample_sums[lane] / baseline_sums[lane] - 1);
    }
  }
  if (std::ranges::any_of(differences_, [](double difference) { return std::isnan(difference); })) {
    return {kNaN, kNaN};
  }
  const double tail = ExpandedTail(n);
  return {PercentileOfAny(differences_, tail), PercentileOfAny(differences_, 1 - tail)};
}

Interval BootstrapRelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                     Pairing pairing, const BootstrapOptions& options) {
  return Bootstrap(options).RelativeDifference(sample, baseline, pairing);
}

}  // namespace gradsync::tools
