#include "tools/statistics/estimates.h"

#include <algorithm>
#include <compare>
#include <eigen3/Eigen/Core>
#include <map>
#include <numeric>
#include <set>

namespace gradsync::tools {
namespace {

// A location of values, and the influence of each value on it, multiplied by the number of values. The sum of
// influences is about 0. Missing values have no influence.
struct Location {
  double value = kNaN;
  std::vector<double> influence;
  size_t num_values = 0;
  size_t num_kept = 0;
};

// Returns the mean of the values that remain after trimming both ends in the order of `keys`. The influence
// of a trimmed value is the influence of the last kept value, as far as the value depends on the key.
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

// Returns the variance around the mean of each launch.
double VarianceOf(const std::vector<double>& influence, const std::vector<size_t>& launches,
                  size_t num_values) {
  double squares = 0;
  auto next = influence.begin();
  for (const size_t size : launches) {
    const std::span<const double> own(next, size);
    next += static_cast<std::ptrdiff_t>(size);
    const double mean = Mean(own);
    for (const double moved : own) squares += (moved - mean) * (moved - mean);
  }
  const auto n = static_cast<double>(num_values);
  return squares / (n - static_cast<double>(launches.size())) / n;
}

// Returns the variance of the location, computed from the means of launches.
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

struct Located {
  double value = kNaN;
  std::vector<double> influence{};  // by round, of the value itself
  size_t num_values = 0;
  double degrees = 0;
  double variance = kNaN;
};

Located Locate(const RoundDifferences& differences, const std::vector<size_t>& launches, double trimmed) {
  const Location own = LocationOf(
      differences.values, differences.order.empty() ? differences.values : differences.order, trimmed);
  Located located{.value = own.value, .influence = own.influence, .num_values = own.num_values};
  if (own.num_kept == 0) return located;
  if (!differences.divisors.empty()) {
    std::vector<double> divisors = differences.divisors;
    for (size_t i = 0; i < divisors.size(); ++i) {
      if (std::isnan(differences.values[i])) divisors[i] = kNaN;
    }
    const Location divisor = LocationOf(divisors, divisors, trimmed);
    located.value = own.value / divisor.value;
    for (size_t i = 0; i < located.influence.size(); ++i) {
      located.influence[i] = (own.influence[i] - located.value * divisor.influence[i]) / divisor.value;
    }
  }
  if (own.num_kept == 1) return located;
  located.degrees = static_cast<double>(own.num_kept) - 1;
  located.variance = VarianceOf(located.influence, launches, located.num_values);
  return located;
}

// Returns the value, divided by `degrees`, that chi-square with `degrees` degrees of freedom exceeds in one
// of ten cases (Wilson and Hilferty, The distribution of chi-square, 1931).
double ChiSquareLimit(double degrees) {
  const double part = 2 / (9 * degrees);
  return std::pow(1 - part + 1.2816 * std::sqrt(part), 3);
}

// Estimates the variation between launches, from the variants of each base and the base itself, in units of
// their own standard deviations. The result is no effect unless launches differ by more than rounds explain,
// and, with `tested`, by more than chance does in one of ten cases.
LaunchEffect EstimateLaunchEffect(const std::map<const void*, std::vector<const Located*>>& by_base,
                                  const std::vector<size_t>& launches, bool tested) {
  double between = 0, within = 0, num_differences = 0;
  for (const auto& [base, members] : by_base) {
    const auto num_rounds = std::ssize(members[0]->influence);
    // The last row is the base, whose differences are 0.
    Eigen::ArrayXXd own = Eigen::ArrayXXd::Zero(std::ssize(members) + 1, num_rounds);
    for (Eigen::Index k = 0; k < std::ssize(members); ++k) {
      const Located& located = *members[static_cast<size_t>(k)];
      own.row(k) = Eigen::Map<const Eigen::ArrayXd>(located.influence.data(), num_rounds);
      own.row(k) /= std::sqrt(located.variance);
    }
    own.rowwise() -= own.colwise().mean().eval();
    own.colwise() -= own.rowwise().mean().eval();
    Eigen::Index begin = 0;
    for (const size_t size : launches) {
      const auto rounds = own.middleCols(begin, static_cast<Eigen::Index>(size));
      begin += static_cast<Eigen::Index>(size);
      const Eigen::ArrayXd means = rounds.rowwise().mean();
      between += static_cast<double>(size) * means.square().sum();
      within += (rounds.colwise() - means).square().sum();
    }
    num_differences += static_cast<double>(members.size());
  }
  const auto num_launches = static_cast<double>(launches.size());
  if (num_launches < 2 || !(within > 0)) return {};
  const auto num_rounds = static_cast<double>(std::accumulate(launches.begin(), launches.end(), size_t{0}));
  const double inflation = between / (num_launches - 1) / (within / (num_rounds - num_launches));
  const double degrees = num_differences * (num_launches - 1);
  return inflation > std::max(tested ? ChiSquareLimit(degrees) : 0, 1.0) ? LaunchEffect{inflation, degrees}
                                                                         : LaunchEffect{};
}

struct LooseLocation {
  double log = kNaN;
  double within = kNaN;      // variance of the location, from values around the mean of each launch
  double between = 0;        // variance of the location, from the means of launches
  double degrees = 0;        // degrees of freedom of `within`
  double more_launches = 0;  // number of launches after the first

  auto operator<=>(const LooseLocation&) const = default;
};

LooseLocation LooseLocationOf(const LooseSample& sample) {
  const std::vector<double>& values = sample.values;
  const bool is_positive = std::ranges::all_of(values, [](double value) { return value > 0; });
  if (values.size() < 2 || !is_positive || std::ranges::count(sample.launches, 0) > 0) return {};
  // If launches have one value each, only values can be used.
  const bool has_launches = sample.launches.size() > 1 && values.size() >= 2 * sample.launches.size();
  const std::vector<size_t> launches = has_launches ? sample.launches : std::vector{values.size()};
  const Location location = LocationOf(values, values, kTrimmed);
  const double square = location.value * location.value;
  const double within = VarianceOf(location.influence, launches, values.size()) / square;
  const double degrees = static_cast<double>(location.num_kept) - 1;
  if (!has_launches) return {std::log(location.value), within, 0, degrees};
  const double between = VarianceOfLaunches(location.influence, launches, values.size()) / square;
  const double more = static_cast<double>(launches.size()) - 1;
  // If values do not vary within launches, the launches are the values.
  return within > 0 ? LooseLocation{std::log(location.value), within, between, degrees, more}
                    : LooseLocation{std::log(location.value), between, 0, more};
}

// Estimates the variation between launches from samples, each of which counts once. Some of many samples of
// few launches look as if launches did not differ, so all samples are used together. There is no test here,
// because a comparison may have only a few samples.
LaunchEffect EstimateLaunchEffect(const std::set<LooseLocation>& samples) {
  double ratios = 0, degrees = 0;
  for (const LooseLocation& sample : samples) {
    if (!(sample.within > 0) || sample.more_launches == 0) continue;
    ratios += sample.more_launches * sample.between / sample.within;
    degrees += sample.more_launches;
  }
  return ratios > degrees ? LaunchEffect{ratios / degrees, degrees} : LaunchEffect{};
}

// If launches have one round each, only rounds can be used.
std::vector<size_t> UsefulLaunches(const std::vector<size_t>& launches) {
  const size_t num_rounds = std::accumulate(launches.begin(), launches.end(), size_t{0});
  return num_rounds < 2 * launches.size() ? std::vector{num_rounds} : launches;
}

struct LocatedFamily {
  std::vector<Located> all;
  std::map<const void*, std::vector<const Located*>> by_base;
  size_t num_intervals = 0;

  LocatedFamily(std::span<const RoundDifferences> family, const std::vector<size_t>& launches,
                double trimmed) {
    for (const RoundDifferences& differences : family) all.push_back(Locate(differences, launches, trimmed));
    for (size_t i = 0; i < all.size(); ++i) {
      if (!(all[i].variance > 0)) continue;
      by_base[family[i].base].push_back(&all[i]);
      ++num_intervals;
    }
  }
  LocatedFamily(const LocatedFamily&) = delete;
};

// See EstimateRounds, and with `one_sided` LeastDifferences, for which only the low ends are meant.
std::vector<Estimate> Estimated(std::span<const RoundDifferences> family,
                                const std::vector<size_t>& all_launches, const Confidence& confidence,
                                double trimmed, bool one_sided) {
  const std::vector<size_t> launches = UsefulLaunches(all_launches);
  const LocatedFamily located_family(family, launches, trimmed);
  const auto& [all, by_base, num_intervals] = located_family;
  LaunchEffect own = EstimateLaunchEffect(by_base, launches, /*tested=*/!one_sided);
  if (confidence.launches.inflation > own.inflation) own = confidence.launches;
  const double chance = confidence.chance;
  const double critical =
      one_sided ? SidakCritical(1, 2 * chance / static_cast<double>(std::max<size_t>(1, num_intervals)))
                : SidakCritical(num_intervals, chance);
  std::vector<Estimate> estimates;
  for (const Located& located : all) {
    Estimate& estimate = estimates.emplace_back(Estimate{located.value});
    if (std::isnan(located.variance)) continue;
    double margin = 0;
    if (located.variance > 0) {
      margin = std::sqrt(located.variance * own.inflation) *
               StudentT(critical, std::min(own.degrees, located.degrees));
    }
    estimate.by_launches = own.inflation > 1;
    estimate.interval = {located.value - margin, located.value + margin};
  }
  return estimates;
}

}  // namespace

Estimate Scaled(const Estimate& estimate, double factor) {
  return {factor * estimate.value,
          {factor * estimate.interval.low, factor * estimate.interval.high},
          estimate.by_launches};
}

double StudentT(double z, double degrees) {
  // Wallace, Bounds on normal approximations to Student's and the chi-square distributions, 1959: the error
  // is within 1 % from 4 degrees of freedom on; below, the result is too large rather than too small.
  const double u = z * (8 * degrees + 3) / (8 * degrees + 1);
  return std::sqrt(degrees * std::expm1(u * u / degrees));
}

double SidakCritical(size_t count, double chance) {
  const double tail = -std::expm1(std::log1p(-chance) / static_cast<double>(count));
  double low = 0;
  double high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) > tail ? low : high) = middle;
  }
  return high;
}

std::vector<Estimate> EstimateRounds(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence,
                                     double trimmed) {
  return Estimated(family, launches, confidence, trimmed, /*one_sided=*/false);
}

LaunchEffect EstimateLaunches(std::span<const RoundDifferences> family,
                              const std::vector<size_t>& all_launches) {
  const std::vector<size_t> launches = UsefulLaunches(all_launches);
  return EstimateLaunchEffect(LocatedFamily(family, launches, kTrimmed).by_base, launches, /*tested=*/false);
}

std::vector<double> LeastDifferences(std::span<const RoundDifferences> family,
                                     const std::vector<size_t>& launches, const Confidence& confidence) {
  std::vector<double> least;
  for (const Estimate& estimate : Estimated(family, launches, confidence, kTrimmed, /*one_sided=*/true))
    least.push_back(estimate.interval.low);
  return least;
}

std::vector<Estimate> EstimateLoose(std::span<const LooseComparison> family) {
  std::vector<std::pair<LooseLocation, LooseLocation>> all;
  std::set<LooseLocation> samples;
  size_t count = 0;
  for (const auto& [own, base] : family) {
    const auto& [first, second] = all.emplace_back(LooseLocationOf(own), LooseLocationOf(base));
    if (std::isnan(first.log) || std::isnan(second.log)) continue;
    samples.insert({first, second});
    ++count;
  }
  const LaunchEffect launches = EstimateLaunchEffect(samples);
  const double critical = SidakCritical(std::max<size_t>(count, 1));
  std::vector<Estimate> estimates;
  for (const auto& [own, base] : all) {
    const double log = own.log - base.log;
    const double within = own.within + base.within;
    // Welch's.
    const double degrees =
        within * within / (own.within * own.within / own.degrees + base.within * base.within / base.degrees);
    const double margin = within > 0 ? std::sqrt(within * launches.inflation) *
                                           StudentT(critical, std::min(degrees, launches.degrees))
                                     : 0 * within;
    estimates.push_back({std::expm1(log), {std::expm1(log - margin), std::expm1(log + margin)}});
    estimates.back().by_launches = launches.inflation > 1;
  }
  return estimates;
}

}  // namespace gradsync::tools
