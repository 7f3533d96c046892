#include "bench/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace gradsync::bench {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 4> kBinaryUnits = {
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};

std::string Format(const char* format, double number, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), format, number, unit);
  return buffer;
}

// Three significant digits.
std::string ThreeDigits(double number, const char* unit) {
  return Format(number < 10 ? "%.2f %s" : number < 100 ? "%.1f %s" : "%.0f %s", number, unit);
}

bool StripSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseByteCount(std::string_view text) {
  int shift = 0;
  for (const auto& [unit, bits] : kBinaryUnits) {
    if (StripSuffix(text, unit)) {
      shift = bits;
      break;
    }
  }
  const std::optional<int64_t> count = ParseInteger(text);
  if (!count || *count < 0 || *count > std::numeric_limits<int64_t>::max() >> shift) return std::nullopt;
  return *count << shift;
}

std::string FormatByteCount(int64_t bytes) {
  for (const auto& [unit, bits] : kBinaryUnits) {
    const int64_t unit_bytes = int64_t{1} << bits;
    if (bytes >= unit_bytes && bytes % unit_bytes == 0)
      return std::to_string(bytes / unit_bytes) + std::string(unit);
  }
  return std::to_string(bytes);
}

std::string ApproximateBytes(double bytes) {
  for (const auto& [unit, bits] : kBinaryUnits) {
    if (bytes >= std::ldexp(1.0, bits)) return ThreeDigits(std::ldexp(bytes, -bits), unit.data());
  }
  return Format("%.0f %s", bytes, "bytes");
}

std::optional<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  double ms_per_unit = 0;
  if (StripSuffix(text, "ms")) {
    ms_per_unit = 1;
  } else if (StripSuffix(text, "s")) {
    ms_per_unit = 1e3;
  } else if (StripSuffix(text, "m")) {
    ms_per_unit = 60e3;
  } else if (StripSuffix(text, "h")) {
    ms_per_unit = 3600e3;
  } else {
    return std::nullopt;
  }
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || stop != end) return std::nullopt;
  const double ms = number * ms_per_unit;
  if (!(ms >= 1 && ms < 1e12)) return std::nullopt;
  return std::chrono::milliseconds(std::llround(ms));
}

std::string ApproximateDuration(double ns) {
  if (ns >= 1e9) return ThreeDigits(ns / 1e9, "s");
  if (ns >= 1e6) return ThreeDigits(ns / 1e6, "ms");
  return ThreeDigits(ns / 1e3, "us");
}

}  // namespace gradsync::bench
