#include "tools/statistics.h"

#include <algorithm>
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
// Of more indices, which would take more than 16 MiB, each resample's are drawn when its turn comes.
constexpr size_t kMostKept = size_t{4} << 20;

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

void DrawIndices(size_t n, Random* random, std::vector<uint32_t>* indices) {
  for (size_t i = 0; i < n; i += 2) {
    const auto [first, second] = random->TwoBelow(n);
    indices->push_back(static_cast<uint32_t>(first));
    if (i + 1 < n) indices->push_back(static_cast<uint32_t>(second));
  }
}

// Into the baseline, unless both have the same, and then into the sample.
void DrawResample(size_t sample_size, size_t baseline_size, Pairing pairing, Random* random,
                  std::vector<uint32_t>* indices) {
  if (pairing == Pairing::kNone) DrawIndices(baseline_size, random, indices);
  DrawIndices(sample_size, random, indices);
}

double SumAt(std::span<const uint32_t> indices, std::span<const double> values) {
  // Two at a time, as they were drawn.
  double sum = 0;
  size_t i = 0;
  for (; i + 2 <= indices.size(); i += 2) sum += values[indices[i]] + values[indices[i + 1]];
  return i == indices.size() ? sum : sum + values[indices[i]];
}

// Of the same rounds of both, which are of one size.
std::pair<double, double> SumsAt(std::span<const uint32_t> rounds, std::span<const double> a,
                                 std::span<const double> b) {
  double a_sum = 0;
  double b_sum = 0;
  for (const uint32_t round : rounds) {
    a_sum += a[round];
    b_sum += b[round];
  }
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

void Bootstrap::DrawAll(size_t sample_size, size_t baseline_size, Pairing pairing) {
  if (sample_size == sample_size_ && baseline_size == baseline_size_ && pairing == pairing_) return;
  sample_size_ = sample_size;
  baseline_size_ = baseline_size;
  pairing_ = pairing;
  Random random(options_.seed);
  indices_.clear();
  for (int i = 0; i < options_.resamples; ++i) {
    DrawResample(sample_size, baseline_size, pairing, &random, &indices_);
  }
}

Interval Bootstrap::RelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                       Pairing pairing) {
  const size_t n = std::min(sample.size(), baseline.size());
  if (n < 2 || (pairing == Pairing::kRounds && sample.size() != baseline.size())) return {kNaN, kNaN};
  const size_t num_drawn = pairing == Pairing::kRounds ? n : sample.size() + baseline.size();
  const bool keeps = num_drawn * static_cast<size_t>(options_.resamples) <= kMostKept;
  Random random(options_.seed);
  std::vector<uint32_t> drawn;
  if (keeps) DrawAll(sample.size(), baseline.size(), pairing);
  const double scale = static_cast<double>(baseline.size()) / static_cast<double>(sample.size());
  differences_.clear();
  for (size_t i = 0; i < static_cast<size_t>(options_.resamples); ++i) {
    if (!keeps) {
      drawn.clear();
      DrawResample(sample.size(), baseline.size(), pairing, &random, &drawn);
    }
    const auto indices = keeps ? std::span<const uint32_t>(indices_).subspan(i * num_drawn, num_drawn)
                               : std::span<const uint32_t>(drawn);
    const auto ours = indices.last(sample.size());
    const auto theirs = indices.first(num_drawn - sample.size());
    const auto [sample_sum, baseline_sum] = pairing == Pairing::kRounds
                                                ? SumsAt(ours, sample, baseline)
                                                : std::pair(SumAt(ours, sample), SumAt(theirs, baseline));
    differences_.push_back(scale * sample_sum / baseline_sum - 1);
    if (std::isnan(differences_.back())) return {kNaN, kNaN};
  }
  const double tail = ExpandedTail(n);
  return {PercentileOfAny(differences_, tail), PercentileOfAny(differences_, 1 - tail)};
}

Interval BootstrapRelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                     Pairing pairing, const BootstrapOptions& options) {
  return Bootstrap(options).RelativeDifference(sample, baseline, pairing);
}

}  // namespace gradsync::tools
