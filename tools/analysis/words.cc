#include "tools/analysis/words.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_replace.h"
#include "model/base/error.h"
#include "model/base/text.h"

namespace gradsync::tools {
namespace {

// Returns the number of decimals that distinguishes the ends of an interval, and a positive end from zero.
int DecimalsOf(const Interval& interval) {
  const double width = interval.high - interval.low;
  const double size = std::max(std::abs(interval.low), std::abs(interval.high));
  int decimals =
      width > 1e-6 * size ? std::clamp(-static_cast<int>(std::floor(std::log10(width / 2))), 0, 9) : 1;
  const double smaller = std::min(std::abs(interval.low), std::abs(interval.high));
  while (smaller > 0 && decimals < 9 && std::round(smaller * std::pow(10, decimals)) == 0) ++decimals;
  return decimals;
}

// Formats a whole number of per cent, or, below 3, at least one significant decimal.
template <class Round>
std::string PercentRounded(double part, const Round& round) {
  const double percent = 100 * part;
  const double digits = percent > 0 ? -std::floor(std::log10(percent)) : 1;
  const int decimals = percent >= 3 ? 0 : static_cast<int>(std::clamp(digits, 1.0, 4.0));
  const double scale = std::pow(10, decimals);
  return Join(Fixed(round(scale * percent) / scale, decimals), " %");
}

}  // namespace

std::string Brief(const std::string& place) {
  return absl::StrReplaceAll(place, {{", batch ", " b"},
                                     {"batch ", "b"},
                                     {", accumulation ", " a"},
                                     {"accumulation ", "a"},
                                     {", sequence ", " s"},
                                     {", run published-", ", "}});
}

std::string PercentRange(const Interval& interval) {
  const Interval percent{100 * interval.low, 100 * interval.high};
  // "0.01 to 18.67 %" has no more information than "up to 19 %".
  if (percent.low > 0 && percent.low < 0.02 * percent.high)
    return Join("up to ", Fixed(percent.high, DecimalsOf({0, percent.high})), " %");
  const int decimals = DecimalsOf(percent);
  return Join(Fixed(percent.low, decimals), " to ", Fixed(percent.high, decimals), " %");
}

// A number that is nearly round is treated as round.
std::string PercentAtLeast(double part) {
  return PercentRounded(part, [](double scaled) { return std::floor(scaled + 1e-6); });
}

std::string PercentAtMost(double part) {
  return PercentRounded(part, [](double scaled) { return std::ceil(scaled - 1e-6); });
}

std::string TimeRange(const Interval& seconds) {
  const bool is_long = std::max(std::abs(seconds.low), std::abs(seconds.high)) >= 0.1;
  const double scale = is_long ? 1 : 1e3;
  const Interval scaled{scale * seconds.low, scale * seconds.high};
  const int decimals = DecimalsOf(scaled);
  return Join(Fixed(scaled.low, decimals), " to ", Fixed(scaled.high, decimals), is_long ? " s" : " ms");
}

}  // namespace gradsync::tools
