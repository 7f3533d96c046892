#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

// Returns the number of Unicode code points in a UTF-8 text.
size_t NumCharacters(std::string_view text);

// Cuts a text of more than `most` characters to `most` characters, of which the last is an ellipsis. `most`
// must be at least 1.
std::string Shortened(std::string_view text, size_t most);

// Joins the items as "a", "a and b", or "a, b and c". `last` is the word before the last item, such as "or".
std::string Listed(const std::vector<std::string>& items, const char* last = "and");

// Formats a finite number with `decimals` digits after the decimal point. A number that is rounded to zero
// has no minus sign.
std::string Fixed(double value, int decimals);

// Formats a finite number with about `digits` significant digits, but keeps all digits before the decimal
// point. A number nearer to zero than kSmallestFixed, but not zero, is written like 1.2e-06, because many
// zeros after the decimal point are difficult to read.
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
// Formats a duration as the value of a command-line flag: "40s", "6m", "3h". Durations up to 90 s are rounded
// up to a multiple of ten seconds, those up to 90 minutes to minutes, and longer ones to hours.
std::string DurationFlag(double seconds);

}  // namespace gradsync
