#include "tools/reports/scale.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/error.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr double kLargest = 1e100;
// How far beyond an end, in parts of a step, a tick counts as on it.
constexpr double kSlack = 1e-6;

int ExponentOf(double value) { return static_cast<int>(std::floor(std::log10(value) + 1e-9)); }

// `value`, a multiple of a step of 10^`exponent` or more, with no more decimals than it needs.
std::string LabelOf(double value, int exponent) {
  if (value == 0) return "0";
  return (value < 0 ? "−" : "") + Fixed(std::abs(value), std::max(0, -exponent));
}

// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
double NiceStep(double least) {
  const double power = std::pow(10.0, ExponentOf(least));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - kSlack)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> LinearTicks(double low, double high, double step) {
  std::vector<Tick> ticks;
  const int exponent = ExponentOf(step);
  const int64_t first = std::llround(std::ceil(low / step - kSlack));
  const int64_t last = std::llround(std::floor(high / step + kSlack));
  for (int64_t i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({std::clamp(value, low, high), LabelOf(i == 0 ? 0 : value, exponent)});
  }
  return ticks;
}

std::vector<Tick> LogTicks(double low, double high, int num_ticks) {
  const int first = static_cast<int>(std::ceil(std::log10(low) - kSlack));
  const int last = static_cast<int>(std::floor(std::log10(high) + kSlack));
  const int every = std::max(1, static_cast<int>(std::ceil((last - first + 1.0) / num_ticks)));
  std::vector<double> values;
  const bool has_few = last - first < 2;
  for (int exponent = first - 1; exponent <= last; ++exponent) {
    const double power = std::pow(10.0, exponent);
    if (exponent >= first && (exponent - first) % every == 0) values.push_back(power);
    if (!has_few) continue;
    for (const double factor : {2.0, 5.0}) values.push_back(factor * power);
  }
  std::vector<Tick> ticks;
  for (const double value : values) {
    if (value < low * (1 - kSlack) || value > high * (1 + kSlack)) continue;
    ticks.push_back({std::clamp(value, low, high), LabelOf(value, ExponentOf(value))});
  }
  return ticks;
}

}  // namespace

bool IsDrawable(double value) { return std::isfinite(value) && std::abs(value) <= kLargest; }

Scale Scale::Linear(double low, double high, double from, double to, int num_ticks, Ends ends) {
  Require(IsDrawable(low) && IsDrawable(high), "chart: a range from ", low, " to ", high, " cannot be drawn");
  if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high))) {
    const double middle = low, margin = low == 0 ? 1 : std::abs(low) / 10;
    low = middle - margin;
    high = middle + margin;
  }
  const double step = NiceStep((high - low) / num_ticks);
  if (ends == Ends::kTicks) {
    low = step * std::floor(low / step + kSlack);
    high = step * std::ceil(high / step - kSlack);
  }
  Scale scale(low, high, from, to, false);
  scale.ticks_ = LinearTicks(low, high, step);
  return scale;
}

Scale Scale::Log(double low, double high, double from, double to, int num_ticks) {
  Require(IsDrawable(low) && IsDrawable(high) && low > 0, "chart: a logarithmic range from ", low, " to ",
          high, " cannot be drawn");
  if (high <= low * (1 + 1e-9)) {
    high = low * 2;
    low = low / 2;
  }
  Scale scale(low, high, from, to, true);
  scale.ticks_ = LogTicks(low, high, num_ticks);
  // Close ends may have none of those between them.
  if (scale.ticks_.size() < 2) scale.ticks_ = LinearTicks(low, high, NiceStep((high - low) / num_ticks));
  return scale;
}

double Scale::operator()(double value) const {
  value = std::clamp(value, low_, high_);
  const double part =
      is_log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + part * (to_ - from_);
}

}  // namespace gradsync::tools
