#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Formats text for users, in UTF-8. Files that are not UTF-8 are rejected when they are read.
namespace gradsync {

// Returns the number of visible characters; a code point counts as one.
size_t NumCharacters(std::string_view text);

// Returns `text`, or its start and an ellipsis if it has more than `most` characters.
std::string Shortened(std::string_view text, size_t most);

// Returns "a", "a and b", "a, b and c". `last` is the word before the last item.
std::string Listed(const std::vector<std::string>& items, const char* last = "and");

// Returns a finite number with `decimals` decimals. Zero after rounding has no sign.
std::string Fixed(double value, int decimals);

// Formats a finite number with `digits` significant digits. Numbers below kSmallestFixed have an exponent,
// because leading zeros are difficult to read.
inline constexpr double kSmallestFixed = 1e-5;
std::string Significant(double value, int digits);

// Returns "13.7 us", "118 ms", "1.1 s".
std::string TimeText(double seconds);
// Returns "8B", "64KiB", "1MiB".
std::string SizeText(int64_t bytes);
// Returns "200 Mbit/s", "4 Gbit/s".
std::string RateText(double bits_per_second);
// Returns "1 rank", "2 ranks".
std::string RankCount(int64_t num_ranks);
// Returns the duration of a measurement as a flag's value, rounded up: "40s", "6m", "3h".
std::string DurationFlag(double seconds);

}  // namespace gradsync
