#include "tools/statistics/statistics.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
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

// What `z` standard errors of a normal distribution are of Student's t (Wallace, Bounds on normal
// approximations to Student's and the chi-square distributions, 1959): within 1 % from 4 degrees of freedom
// on, and too many rather than too few below.
double StudentT(double z, double degrees) {
  const double u = z * (8 * degrees + 3) / (8 * degrees + 1);
  return std::sqrt(degrees * std::expm1(u * u / degrees));
}

// What a normal distribution's largest of `count` independent |z| stays below in 95 % of cases (Sidak, 1967):
// no less than the largest of as many that depend on each other.
double SidakCritical(size_t count) {
  const double tail = -std::expm1(std::log(0.95) / static_cast<double>(count));
  double low = 0;
  double high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) > tail ? low : high) = middle;
  }
  return high;
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

std::vector<size_t> LaunchesOf(std::span<const double> values, std::span<const size_t> launches) {
  if (launches.empty()) return {values.size()};
  return {launches.begin(), launches.end()};
}

bool IsComparable(const ComparedSamples& samples) {
  const auto& [sample, baseline, pairing, launches, baseline_launches] = samples;
  if (sample.size() < 2 || std::ranges::count(launches, 0) + std::ranges::count(baseline_launches, 0) > 0) {
    return false;
  }
  if (baseline.empty()) return true;
  const auto is_positive = [](double value) { return value > 0; };
  return baseline.size() >= 2 && (pairing == Pairing::kNone || sample.size() == baseline.size()) &&
         std::ranges::all_of(sample, is_positive) && std::ranges::all_of(baseline, is_positive);
}

// A variance, and how well it is known.
class Variance {
 public:
  void Add(double value, double degrees) {
    value_ += value;
    squares_ += degrees > 0 ? value * value / degrees : 0;
  }
  // How many times its root lies beyond `z` of a normal distribution; degrees of freedom are Satterthwaite's.
  double Margin(double z) const { return value_ > 0 ? std::sqrt(value_) * StudentT(z, degrees()) : 0; }
  double value() const { return value_; }
  double degrees() const { return squares_ > 0 ? value_ * value_ / squares_ : 0; }

 private:
  double value_ = 0;
  double squares_ = 0;
};

// Of an estimate: as launches differ, where there are several, and as values differ within them.
struct Spread {
  Variance between;
  Variance within;

  // Adds those of the mean of `values`, which is 0.
  void Add(std::span<const double> values, const std::vector<size_t>& launches) {
    const double n = static_cast<double>(values.size());
    const double num_launches = static_cast<double>(launches.size());
    double of_launches = 0;
    double of_values = 0;
    size_t begin = 0;
    for (const size_t size : launches) {
      const std::span<const double> own = values.subspan(begin, size);
      begin += size;
      const double part = static_cast<double>(size) / n;
      of_launches += std::pow(part * Mean(own), 2) * num_launches / (num_launches - 1);
      if (size > 1) of_values += std::pow(part * SampleStd(own), 2) / static_cast<double>(size);
    }
    within.Add(of_values, n - num_launches);
    launches.size() > 1 ? between.Add(of_launches, num_launches - 1) : between.Add(of_values, n - 1);
  }
};

// Of the logarithm of a ratio of means, or of a mean: to the first order every value moves it by itself.
Spread SpreadOf(const ComparedSamples& samples) {
  const auto relative = [](std::span<const double> values) {
    std::vector<double> parts(values.begin(), values.end());
    const double mean = Mean(values);
    for (double& part : parts) part = part / mean - 1;
    return parts;
  };
  const std::vector<size_t> launches = LaunchesOf(samples.sample, samples.launches);
  Spread spread;
  if (samples.baseline.empty()) {
    std::vector<double> moved(samples.sample.begin(), samples.sample.end());
    const double mean = Mean(moved);
    for (double& value : moved) value -= mean;
    spread.Add(moved, launches);
  } else {
    std::vector<double> moved = relative(samples.sample);
    std::vector<double> base = relative(samples.baseline);
    if (samples.pairing == Pairing::kRounds) {
      std::ranges::transform(moved, base, moved.begin(), std::minus<>());
    } else {
      spread.Add(base, LaunchesOf(samples.baseline, samples.baseline_launches));
    }
    spread.Add(moved, launches);
  }
  return spread;
}

bool HasLaunchesInRounds(const ComparedSamples& samples) {
  return samples.pairing == Pairing::kRounds && samples.launches.size() > 1;
}

// How many times the error within launches that between launches is, by its square: over all comparisons in
// rounds together, because three launches say next to nothing of a single one.
class Inflation {
 public:
  void Add(const ComparedSamples& samples, const Spread& spread) {
    if (!HasLaunchesInRounds(samples) || !(spread.within.value() > 0)) return;
    sum_ += spread.between.value() / spread.within.value();
    ++count_;
    const double degrees = spread.between.degrees();
    degrees_ = count_ == 1 ? degrees : std::min(degrees_, degrees);
    if (samples.baseline.empty()) return;
    means_.insert(Mean(samples.sample));
    means_.insert(Mean(samples.baseline));
  }

  // Of one of them. So many launches of so many strategies have (launches - 1) (strategies - 1) degrees of
  // freedom, as in an analysis of variance. One that by itself differs more is taken at its word.
  double Margin(const Spread& spread, double z) const {
    Variance pooled;
    const double others = means_.size() > 2 ? static_cast<double>(means_.size() - 1) : 1;
    pooled.Add(spread.within.value() * sum_ / static_cast<double>(count_), degrees_ * others);
    return std::max(pooled.Margin(z), z * std::sqrt(spread.between.value()));
  }

 private:
  double sum_ = 0;
  size_t count_ = 0;
  double degrees_ = 0;
  std::set<double> means_;  // of the samples that are divided by one another
};

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

double Percentile(std::span<const double> values, double p) {
  if (values.empty()) return kNaN;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double index = p * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(index);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (index - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
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

void Bootstrap::Resample(const ComparedSamples& samples) {
  const bool is_apart = !samples.baseline.empty() && samples.pairing == Pairing::kNone;
  const Shape shape{samples.sample.size(), is_apart ? samples.baseline.size() : 0};
  const size_t num_resamples = static_cast<size_t>(options_.resamples);
  const size_t num_counted = shape.apart + shape.sample_size;
  const bool keeps = num_resamples * num_counted <= kMostKept;
  const bool is_drawn = keeps && shape == kept_;
  kept_ = keeps ? shape : Shape{};
  counts_.resize((keeps ? num_resamples : kBlock) * num_counted);
  resampled_.resize(num_resamples);
  Random random(options_.seed);
  for (size_t first = 0; first < num_resamples; first += kBlock) {
    const auto size = static_cast<Eigen::Index>(std::min(kBlock, num_resamples - first));
    Counts counts(counts_.data() + (keeps ? first * num_counted : 0), size,
                  static_cast<Eigen::Index>(num_counted));
    if (!is_drawn) DrawBlock(shape.sample_size, shape.apart, &random, &counts);
    const auto means_of = [](const auto& drawn, std::span<const double> values) -> Eigen::ArrayXd {
      return (drawn * VectorOf(values)).array() / static_cast<double>(values.size());
    };
    Eigen::Map<Eigen::ArrayXd> result(&resampled_[first], size);
    result = means_of(counts.rightCols(Size(samples.sample)), samples.sample);
    if (!samples.baseline.empty()) {
      result /= means_of(counts.leftCols(Size(samples.baseline)), samples.baseline);
    }
  }
}

std::vector<Interval> Bootstrap::Simultaneous(std::span<const ComparedSamples> comparisons) {
  constexpr double kRounding = 1e-12;  // smaller errors are none
  struct Estimate {
    double value = kNaN;  // a logarithm of a ratio, or a mean
    Spread spread{};
  };
  std::vector<Estimate> estimates;
  std::vector<double> largest(static_cast<size_t>(options_.resamples), 0);  // |t| of each resample
  std::set<std::pair<double, double>> different;  // comparisons, but for those that are there twice
  bool has_launches = false;
  Inflation inflation;
  for (const ComparedSamples& samples : comparisons) {
    Estimate& estimate = estimates.emplace_back();
    if (!IsComparable(samples)) continue;
    const bool is_ratio = !samples.baseline.empty();
    const auto scaled = [&](double value) { return is_ratio ? std::log(value) : value; };
    estimate.value = scaled(Mean(samples.sample) / (is_ratio ? Mean(samples.baseline) : 1));
    estimate.spread = SpreadOf(samples);
    const double smallest = kRounding * (is_ratio ? 1 : std::abs(estimate.value));
    if (!(std::sqrt(estimate.spread.between.value()) > smallest)) continue;
    inflation.Add(samples, estimate.spread);
    different.emplace(std::abs(estimate.value), estimate.spread.between.value());
    if (std::max(samples.launches.size(), samples.baseline_launches.size()) > 1) {
      has_launches = true;
      continue;
    }
    Resample(samples);
    double squares = 0;
    for (double& resampled : resampled_) {
      resampled = std::abs(scaled(resampled) - estimate.value);
      squares += resampled * resampled;
    }
    const double error = std::sqrt(squares / static_cast<double>(resampled_.size()));
    for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], resampled_[i] / error);
  }
  const double critical =
      std::max(Percentile(largest, 0.95), has_launches ? SidakCritical(different.size()) : 0);
  std::vector<Interval> intervals;
  for (size_t i = 0; i < comparisons.size(); ++i) {
    const auto& [value, spread] = estimates[i];
    const bool is_pooled = HasLaunchesInRounds(comparisons[i]) && spread.within.value() > 0;
    const double margin =
        std::max(is_pooled ? inflation.Margin(spread, critical) : spread.between.Margin(critical),
                 spread.within.Margin(critical));
    const auto end = [&](double log) { return comparisons[i].baseline.empty() ? log : std::expm1(log); };
    intervals.push_back({end(value - margin), end(value + margin)});
  }
  return intervals;
}

}  // namespace gradsync::tools
