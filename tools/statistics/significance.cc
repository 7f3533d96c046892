#include "tools/statistics/significance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The continued fraction of the incomplete beta function (NIST Digital Library of Mathematical Functions,
// 8.17.22), by Lentz's method. Converges quickly for x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / not_zero(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int m = 1; m <= 1000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / not_zero(1 + even * d);
    c = not_zero(1 + even / c);
    result *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / not_zero(1 + odd * d);
    c = not_zero(1 + odd / c);
    result *= c * d;
    if (std::abs(c * d - 1) < 1e-14) break;
  }
  return result;
}

// The regularised incomplete beta function.
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double log_front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b);
  const double front = std::exp(log_front + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * BetaFraction(a, b, x) / a
                                   : 1 - front * BetaFraction(b, a, 1 - x) / b;
}

// Of a difference with a standard error; samples that do not vary leave no doubt.
double PValue(double difference, double error, double degrees) {
  if (error > 0) return StudentTwoSided(difference / error, degrees);
  return difference == 0 ? 1 : 0;
}

}  // namespace

double StudentTwoSided(double t, double degrees) {
  return IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

Moments MomentsOf(std::span<const double> values) {
  return {Mean(values), values.size() < 2 ? 0 : SampleStd(values), values.size()};
}

double WelchPValue(const Moments& sample, const Moments& baseline, double relative) {
  if (sample.n < 2 || baseline.n < 2) return kNaN;
  const auto part = [](const Moments& moments, double scale) {
    return scale * scale * moments.std * moments.std / static_cast<double>(moments.n);
  };
  const double a = part(sample, 1);
  const double b = part(baseline, 1 + relative);
  const double square = a + b;
  const double degrees =
      square * square /
      (a * a / static_cast<double>(sample.n - 1) + b * b / static_cast<double>(baseline.n - 1));
  return PValue(sample.mean - (1 + relative) * baseline.mean, std::sqrt(square), degrees);
}

double DifferencePValue(std::span<const double> sample, std::span<const double> baseline, Pairing pairing,
                        double relative) {
  if (pairing == Pairing::kNone) return WelchPValue(MomentsOf(sample), MomentsOf(baseline), relative);
  if (sample.size() < 2 || sample.size() != baseline.size()) return kNaN;
  std::vector<double> differences(sample.size());
  for (size_t i = 0; i < sample.size(); ++i) differences[i] = sample[i] - (1 + relative) * baseline[i];
  const Moments moments = MomentsOf(differences);
  const double n = static_cast<double>(moments.n);
  return PValue(moments.mean, moments.std / std::sqrt(n), n - 1);
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<size_t> order;
  for (size_t i = 0; i < p_values.size(); ++i) {
    if (!std::isnan(p_values[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.begin(), p_values.end());
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(order.size() - i) * p_values[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

}  // namespace gradsync::tools
