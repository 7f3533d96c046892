#include "model/base/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

}  // namespace

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Shortened(std::string_view text, size_t most) {
  if (NumCharacters(text) <= most) return std::string(text);
  size_t kept = 0;
  for (size_t characters = 0; kept < text.size(); ++kept) {
    if (!IsContinuation(text[kept]) && ++characters == most) break;
  }
  return std::string(text.substr(0, kept)) + "…";
}

std::string Listed(const std::vector<std::string>& items, const char* last) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i)
    text += Join(i == 0 ? "" : i + 1 == items.size() ? Join(" ", last, " ") : ", ", items[i]);
  return text;
}

std::string Fixed(double value, int decimals) {
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (text.starts_with('-') && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string Significant(double value, int digits) {
  if (value == 0) return "0";
  if (std::abs(value) < kSmallestFixed) return absl::StrFormat("%.*e", digits - 1, value);
  const int decimals = digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  return Fixed(value, std::max(decimals, 0));
}

std::string TimeText(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1) return Significant(seconds, 2) + " s";
  return size >= 1e-3 || size == 0 ? Significant(1e3 * seconds, 3) + " ms"
                                   : Significant(1e6 * seconds, 3) + " us";
}

std::string SizeText(int64_t bytes) { return FormatCount(bytes) + "B"; }

std::string RateText(double rate) {
  return rate < 1e9 ? Join(std::llround(rate / 1e6), " Mbit/s") : Join(rate / 1e9, " Gbit/s");
}

std::string RankCount(int64_t num_ranks) { return Join(num_ranks, num_ranks == 1 ? " rank" : " ranks"); }

std::string DurationFlag(double seconds) {
  if (seconds <= 90) return Fixed(10 * std::ceil(seconds / 10), 0) + "s";
  return seconds <= 90 * 60 ? Fixed(std::ceil(seconds / 60), 0) + "m"
                            : Fixed(std::ceil(seconds / 3600), 0) + "h";
}

}  // namespace gradsync
