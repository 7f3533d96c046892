#include "tools/statistics/estimates.h"

#include <Eigen/Core>
#include <algorithm>
#include <numeric>
#include <optional>

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). The standard library's
// distributions may differ from one implementation to the next; this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // Uniform in [0, n) for n below 2^32.
  size_t Below(size_t n) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<size_t>(((z >> 32) * n) >> 32);
  }

 private:
  uint64_t state_;
};

// A location of values, and by how much each of them moves it: its influence times the number of values,
// which add up to about 0. Values that are not there have none.
struct Location {
  double value = kNaN;
  std::vector<double> influence;
  size_t num_values = 0;
  size_t num_kept = 0;
};

// Of the values in the order of `keys`, those that are not trimmed; the influence of the others is that of
// the last ones kept, as far as the value follows the key.
Location LocationOf(const std::vector<double>& values, const std::vector<double>& keys, double trimmed) {
  std::vector<size_t> order;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i]) && !std::isnan(keys[i])) order.push_back(i);
  }
  Location location{
      .value = kNaN, .influence = std::vector<double>(values.size()), .num_values = order.size()};
  if (order.empty()) return location;
  std::ranges::stable_sort(order, {}, [&](size_t i) { return keys[i]; });
  const auto cut = static_cast<size_t>(trimmed * static_cast<double>(order.size()));
  const std::span<const size_t> kept = std::span(order).subspan(cut, order.size() - 2 * cut);
  location.num_kept = kept.size();
  double value = 0, key = 0;
  for (const size_t i : kept) value += values[i], key += keys[i];
  const auto count = static_cast<double>(kept.size());
  value /= count, key /= count;
  double products = 0, squares = 0;
  for (const size_t i : kept) {
    products += (values[i] - value) * (keys[i] - key);
    squares += (keys[i] - key) * (keys[i] - key);
  }
  const double slope = squares > 0 ? products / squares : 0;
  const double scale = static_cast<double>(order.size()) / count;
  const auto winsorized = [&](size_t last_kept) { return scale * slope * (keys[last_kept] - key); };
  for (size_t rank = 0; rank < order.size(); ++rank) {
    double& moved = location.influence[order[rank]];
    if (rank < cut) {
      moved = winsorized(kept.front());
    } else if (rank >= cut + kept.size()) {
      moved = winsorized(kept.back());
    } else {
      moved = scale * (values[order[rank]] - value);
    }
  }
  location.value = value;
  return location;
}

// Around 0 for each launch alone, if there are several.
double VarianceOf(const std::vector<double>& influence, size_t num_values) {
  double sum = 0, squares = 0;
  for (const double moved : influence) sum += moved, squares += moved * moved;
  const auto n = static_cast<double>(num_values);
  return (squares - sum * sum / n) / (n - 1) / n;
}

// The variance of the location as the launches' own means show it.
double VarianceOfLaunches(const std::vector<double>& influence, const std::vector<size_t>& launches,
                          size_t num_values) {
  const auto num_launches = static_cast<double>(launches.size());
  double squares = 0;
  size_t begin = 0;
  for (const size_t size : launches) {
    double sum = 0;
    for (size_t i = begin; i < begin + size; ++i) sum += influence[i];
    begin += size;
    squares += std::pow(sum / static_cast<double>(num_values), 2);
  }
  return squares * num_launches / (num_launches - 1);
}

struct Judged {
  double value = kNaN;
  std::vector<double> influence{};  // by round, of the value itself
  size_t num_values = 0;
  double degrees = 0;
  double variance = kNaN;
};

Judged Judge(const RoundDifferences& differences, double trimmed) {
  const Location own = LocationOf(
      differences.values, differences.order.empty() ? differences.values : differences.order, trimmed);
  Judged judged{.value = own.value, .influence = own.influence, .num_values = own.num_values};
  if (own.num_kept < 2) return judged;
  if (!differences.divisors.empty()) {
    std::vector<double> divisors = differences.divisors;
    for (size_t i = 0; i < divisors.size(); ++i) {
      if (std::isnan(differences.values[i])) divisors[i] = kNaN;
    }
    const Location divisor = LocationOf(divisors, divisors, trimmed);
    judged.value = own.value / divisor.value;
    for (size_t i = 0; i < judged.influence.size(); ++i) {
      judged.influence[i] = (own.influence[i] - judged.value * divisor.influence[i]) / divisor.value;
    }
  }
  judged.degrees = static_cast<double>(own.num_kept) - 1;
  judged.variance = VarianceOf(judged.influence, judged.num_values);
  return judged;
}

// How many standard errors no difference of the family is off by in 95 % of the resamples.
double CriticalOf(const std::vector<Judged>& family, const std::vector<size_t>& launches,
                  const BootstrapOptions& options) {
  std::vector<const Judged*> usable;
  for (const Judged& judged : family) {
    if (judged.variance > 0) usable.push_back(&judged);
  }
  if (usable.empty()) return 0;
  const size_t num_rounds = usable[0]->influence.size();
  Eigen::MatrixXd influences(num_rounds, usable.size());
  for (size_t k = 0; k < usable.size(); ++k) {
    const double mean = Mean(usable[k]->influence);
    for (size_t i = 0; i < num_rounds; ++i) {
      influences(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k)) = usable[k]->influence[i] - mean;
    }
  }
  Random random(options.seed);
  Eigen::MatrixXd counts = Eigen::MatrixXd::Zero(options.resamples, static_cast<Eigen::Index>(num_rounds));
  for (Eigen::Index resample = 0; resample < counts.rows(); ++resample) {
    size_t begin = 0;
    for (const size_t size : launches) {
      for (size_t i = 0; i < size; ++i)
        counts(resample, static_cast<Eigen::Index>(begin + random.Below(size))) += 1;
      begin += size;
    }
  }
  Eigen::ArrayXXd errors = (counts * influences).array();
  // In standard errors of the resamples, which of few rounds are smaller than those of the estimates.
  errors.rowwise() /= errors.square().colwise().mean().sqrt().eval();
  const Eigen::ArrayXd largest = errors.abs().rowwise().maxCoeff();
  return std::max(Percentile({largest.data(), static_cast<size_t>(largest.size())}, 0.95), SidakCritical(1));
}

// How many times the variance within launches the variance between them is, at least once: over all of a
// family, because two or three launches say next to nothing of a single difference.
double InflationOf(const std::vector<Judged>& family, const std::vector<size_t>& launches) {
  if (launches.size() < 2) return 1;
  double sum = 0, count = 0;
  for (const Judged& judged : family) {
    if (!(judged.variance > 0)) continue;
    sum += VarianceOfLaunches(judged.influence, launches, judged.num_values) / judged.variance;
    ++count;
  }
  return count == 0 ? 1 : std::max(1.0, sum / count);
}

struct LooseLocation {
  double log = kNaN;
  double variance = kNaN;
  double degrees = 0;
};

LooseLocation LooseLocationOf(const LooseSample& sample) {
  const auto& [values, launches] = sample;
  const bool is_positive = std::ranges::all_of(values, [](double value) { return value > 0; });
  if (values.size() < 2 || !is_positive || std::ranges::count(launches, 0) > 0) return {};
  const Location location = LocationOf(values, values, kTrimmed);
  const double within = VarianceOf(location.influence, values.size());
  const double between =
      launches.size() > 1 ? VarianceOfLaunches(location.influence, launches, values.size()) : 0;
  const double square = location.value * location.value;
  return {std::log(location.value), std::max(within, between) / square,
          between > within ? static_cast<double>(launches.size()) - 1
                           : static_cast<double>(location.num_kept) - 1};
}

}  // namespace

Estimate Scaled(const Estimate& estimate, double factor) {
  return {factor * estimate.value, {factor * estimate.interval.low, factor * estimate.interval.high}};
}

double StudentT(double z, double degrees) {
  // Wallace, Bounds on normal approximations to Student's and the chi-square distributions, 1959: within 1 %
  // from 4 degrees of freedom on, and too many rather than too few below.
  const double u = z * (8 * degrees + 3) / (8 * degrees + 1);
  return std::sqrt(degrees * std::expm1(u * u / degrees));
}

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

std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const BootstrapOptions& options,
                                     double trimmed) {
  std::vector<Judged> all;
  for (const RoundDifferences& differences : family) all.push_back(Judge(differences, trimmed));
  const double critical = CriticalOf(all, launches, options);
  const double inflation = InflationOf(all, launches);
  std::vector<Estimate> estimates;
  for (const Judged& judged : all) {
    Estimate& estimate = estimates.emplace_back(Estimate{judged.value});
    if (std::isnan(judged.variance)) continue;
    const double error = std::sqrt(judged.variance * inflation);
    const double margin = error > 0 ? error * StudentT(critical, judged.degrees) : 0;
    estimate.interval = {judged.value - margin, judged.value + margin};
  }
  return estimates;
}

double CommonCoefficient(const std::vector<std::vector<double>>& values,
                         const std::vector<std::vector<double>>& covariates) {
  if (values.size() < 2) return 0;
  const auto num_variants = static_cast<Eigen::Index>(values.size());
  std::vector<size_t> rounds;
  for (size_t i = 0; i < values[0].size(); ++i) {
    bool is_whole = true;
    for (size_t k = 0; k < values.size(); ++k) {
      is_whole &= !std::isnan(values[k][i]) && !std::isnan(covariates[k][i]);
    }
    if (is_whole) rounds.push_back(i);
  }
  if (rounds.size() < 3) return 0;
  const auto residuals = [&](const std::vector<std::vector<double>>& of) {
    Eigen::ArrayXXd left(num_variants, static_cast<Eigen::Index>(rounds.size()));
    for (Eigen::Index k = 0; k < left.rows(); ++k) {
      for (Eigen::Index i = 0; i < left.cols(); ++i) {
        left(k, i) = of[static_cast<size_t>(k)][rounds[static_cast<size_t>(i)]];
      }
    }
    left.rowwise() -= left.colwise().mean().eval();
    left.colwise() -= left.rowwise().mean().eval();
    return left;
  };
  const Eigen::ArrayXXd y = residuals(values), x = residuals(covariates);
  const double squares = x.square().sum();
  return squares > 0 ? (x * y).sum() / squares : 0;
}

std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family) {
  std::vector<std::pair<LooseLocation, LooseLocation>> all;
  size_t count = 0;
  for (const auto& [own, base] : family) {
    all.emplace_back(LooseLocationOf(own), LooseLocationOf(base));
    count += !std::isnan(all.back().first.log) && !std::isnan(all.back().second.log);
  }
  const double critical = SidakCritical(std::max<size_t>(count, 1));
  std::vector<Estimate> estimates;
  for (const auto& [own, base] : all) {
    const double log = own.log - base.log;
    const double variance = own.variance + base.variance;
    // Welch's.
    const double degrees =
        variance * variance /
        (own.variance * own.variance / own.degrees + base.variance * base.variance / base.degrees);
    const double margin = variance > 0 ? std::sqrt(variance) * StudentT(critical, degrees) : 0 * variance;
    estimates.push_back({std::expm1(log), {std::expm1(log - margin), std::expm1(log + margin)}});
  }
  return estimates;
}

}  // namespace gradsync::tools
