#include "bench/records/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace gradsync::bench {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 4> kBinaryPrefixes = {
    {{"Ti", 40}, {"Gi", 30}, {"Mi", 20}, {"Ki", 10}}};

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

// `what`: what follows the prefix, "B" for bytes.
std::optional<int64_t> ParseBinary(std::string_view text, std::string_view what) {
  int shift = 0;
  for (const auto& [prefix, bits] : kBinaryPrefixes) {
    std::string_view number = text;
    if (StripSuffix(number, what) && StripSuffix(number, prefix)) {
      text = number;
      shift = bits;
      break;
    }
  }
  if (shift == 0) StripSuffix(text, what);
  const std::optional<int64_t> count = ParseInteger(text);
  if (!count || *count < 0 || *count > std::numeric_limits<int64_t>::max() >> shift) return std::nullopt;
  return *count << shift;
}

std::string FormatBinary(int64_t count, std::string_view what) {
  for (const auto& [prefix, bits] : kBinaryPrefixes) {
    const int64_t unit = int64_t{1} << bits;
    if (count >= unit && count % unit == 0)
      return std::to_string(count / unit) + std::string(prefix) + std::string(what);
  }
  return std::to_string(count);
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseByteCount(std::string_view text) { return ParseBinary(text, "B"); }

std::string FormatByteCount(int64_t bytes) { return FormatBinary(bytes, "B"); }

std::optional<int64_t> ParseElementCount(std::string_view text) { return ParseBinary(text, ""); }

std::string FormatElementCount(int64_t elements) { return FormatBinary(elements, ""); }

std::string ApproximateBytes(double bytes) {
  for (const auto& [unit, bits] : kBinaryPrefixes) {
    if (bytes >= std::ldexp(1.0, bits))
      return ThreeDigits(std::ldexp(bytes, -bits), (std::string(unit) + "B").c_str());
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
