#include "tools/statistics/statistics.h"

#include <Eigen/Core>
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
// Resamples whose sums are taken together.
constexpr size_t kBlock = 256;
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

// What `z` standard errors of a normal distribution are for the mean of `n` values: as many of Student's t,
// by Cornish and Fisher's expansion, and sqrt(n / (n - 1)) more because a resample varies as the population
// of the n values does.
double ForFew(double z, size_t n) {
  const double degrees = static_cast<double>(n - 1);
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double t = z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
  return t * std::sqrt((degrees + 1) / degrees);
}

// The fraction of a normal distribution beyond that, for 95 %.
double ExpandedTail(size_t n) {
  constexpr double kZ = 1.959963984540054;
  return 0.5 * std::erfc(ForFew(kZ, n) / std::sqrt(2.0));
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

// How often each value is in each resample: (resamples, values), so that a product with the values is the
// resamples' sums.
using Counts = Eigen::Map<Eigen::MatrixXd>;

// Adds a resample of `n` values, those from `first_value` on.
void CountDraws(size_t n, size_t first_value, Random* random, Eigen::Index resample, Counts* counts) {
  const auto count = [&](size_t value) {
    (*counts)(resample, static_cast<Eigen::Index>(first_value + value)) += 1;
  };
  for (size_t i = 0; i < n; i += 2) {
    const auto [first, second] = random->TwoBelow(n);
    count(first);
    if (i + 1 < n) count(second);
  }
}

// Resamples of the sample and, apart from it, of the baseline; none of that where rounds are drawn, which
// both have in common. In each the baseline's draws come first.
void DrawBlock(size_t sample_size, size_t baseline_size, Random* random, Counts* counts) {
  counts->setZero();
  for (Eigen::Index resample = 0; resample < counts->rows(); ++resample) {
    CountDraws(baseline_size, 0, random, resample, counts);
    CountDraws(sample_size, baseline_size, random, resample, counts);
  }
}

Eigen::Index Size(std::span<const double> values) { return static_cast<Eigen::Index>(values.size()); }

Eigen::Map<const Eigen::VectorXd> VectorOf(std::span<const double> values) {
  return {values.data(), Size(values)};
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
  const double mean = Mean(baseline);
  return mean == 0 ? kNaN : Mean(sample) / mean - 1;
}

bool Bootstrap::Resample(const ComparedSamples& samples) {
  const auto& [sample, baseline, pairing] = samples;
  if (std::min(sample.size(), baseline.size()) < 2) return false;
  if (pairing == Pairing::kRounds && sample.size() != baseline.size()) return false;
  const Shape shape{sample.size(), pairing == Pairing::kRounds ? 0 : baseline.size()};
  const size_t num_resamples = static_cast<size_t>(options_.resamples);
  const size_t num_counted = shape.apart + shape.sample_size;
  const bool keeps = num_resamples * num_counted <= kMostKept;
  const bool is_drawn = keeps && shape == kept_;
  kept_ = keeps ? shape : Shape{};
  counts_.resize((keeps ? num_resamples : kBlock) * num_counted);
  differences_.resize(num_resamples);
  Random random(options_.seed);
  const double scale = static_cast<double>(baseline.size()) / static_cast<double>(sample.size());
  for (size_t first = 0; first < num_resamples; first += kBlock) {
    const auto size = static_cast<Eigen::Index>(std::min(kBlock, num_resamples - first));
    Counts counts(counts_.data() + (keeps ? first * num_counted : 0), size,
                  static_cast<Eigen::Index>(num_counted));
    if (!is_drawn) DrawBlock(shape.sample_size, shape.apart, &random, &counts);
    const Eigen::VectorXd sample_sums = counts.rightCols(Size(sample)) * VectorOf(sample);
    const Eigen::VectorXd baseline_sums = counts.leftCols(Size(baseline)) * VectorOf(baseline);
    Eigen::Map<Eigen::ArrayXd>(&differences_[first], size) =
        scale * sample_sums.array() / baseline_sums.array() - 1;
  }
  return std::ranges::all_of(differences_, [](double difference) { return std::isfinite(difference); });
}

Interval Bootstrap::RelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                       Pairing pairing) {
  if (!Resample({sample, baseline, pairing})) return {kNaN, kNaN};
  const double tail = ExpandedTail(std::min(sample.size(), baseline.size()));
  return {PercentileOfAny(differences_, tail), PercentileOfAny(differences_, 1 - tail)};
}

std::vector<Interval> Bootstrap::Simultaneous(std::span<const ComparedSamples> comparisons) {
  constexpr double kRounding = 1e-12;  // smaller errors are none
  const auto log_ratio_of = [](const ComparedSamples& samples) {
    return std::log1p(tools::RelativeDifference(samples.sample, samples.baseline));
  };
  std::vector<double> errors;                                               // standard errors of log ratios
  std::vector<double> largest(static_cast<size_t>(options_.resamples), 0);  // |t| of each resample
  for (const ComparedSamples& samples : comparisons) {
    errors.push_back(kNaN);
    if (!Resample(samples)) continue;
    const double log_ratio = log_ratio_of(samples);
    double squares = 0;
    for (double& resampled : differences_) {
      resampled = std::abs(std::log1p(resampled) - log_ratio);
      squares += resampled * resampled;
    }
    errors.back() = std::sqrt(squares / static_cast<double>(differences_.size()));
    if (!(errors.back() > kRounding) || !std::isfinite(errors.back())) continue;
    for (size_t i = 0; i < largest.size(); ++i) {
      largest[i] = std::max(largest[i], differences_[i] / errors.back());
    }
  }
  const double critical = Percentile(largest, 0.95);
  std::vector<Interval> intervals;
  for (size_t i = 0; i < comparisons.size(); ++i) {
    const double log_ratio = log_ratio_of(comparisons[i]);
    const size_t n = std::min(comparisons[i].sample.size(), comparisons[i].baseline.size());
    const double margin = errors[i] * ForFew(critical, n);
    intervals.push_back({std::expm1(log_ratio - margin), std::expm1(log_ratio + margin)});
  }
  return intervals;
}

Interval BootstrapRelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                     Pairing pairing, const BootstrapOptions& options) {
  return Bootstrap(options).RelativeDifference(sample, baseline, pairing);
}

}  // namespace gradsync::tools
