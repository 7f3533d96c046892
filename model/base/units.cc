#include "model/base/units.h"

#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradsync {
namespace {

struct Prefix {
  const char* name;
  int bits;
};
constexpr std::array<Prefix, 4> kBinaryPrefixes = {{{"Ti", 40}, {"Gi", 30}, {"Mi", 20}, {"Ki", 10}}};

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  return absl::SimpleAtoi({text.data(), text.size()}, &value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> ParseCount(std::string_view text) {
  int shift = 0;
  for (const Prefix& prefix : kBinaryPrefixes) {
    if (!text.ends_with(prefix.name)) continue;
    text.remove_suffix(2);
    shift = prefix.bits;
    break;
  }
  const std::optional<int64_t> count = ParseInteger(text);
  if (!count || *count < 0 || *count > std::numeric_limits<int64_t>::max() >> shift) return std::nullopt;
  return *count << shift;
}

std::optional<int64_t> ParseByteCount(std::string_view text) {
  if (text.ends_with('B')) text.remove_suffix(1);
  return ParseCount(text);
}

std::string FormatCount(int64_t count) {
  for (const auto& [name, bits] : kBinaryPrefixes) {
    const int64_t unit = int64_t{1} << bits;
    if (count >= unit && count % unit == 0) return absl::StrCat(count / unit, name);
  }
  return absl::StrCat(count);
}

std::string FormatByteCount(int64_t bytes) {
  const std::string count = FormatCount(bytes);
  return count.ends_with('i') ? count + "B" : count;
}

std::string ApproximateBytes(double bytes) {
  for (const auto& [name, bits] : kBinaryPrefixes) {
    const double number = std::ldexp(bytes, -bits);
    const int decimals = number < 10 ? 2 : number < 100 ? 1 : 0;
    if (number >= 1) return absl::StrFormat("%.*f %sB", decimals, number, name);
  }
  return absl::StrFormat("%.0f bytes", bytes);
}

}  // namespace gradsync
