#ifndef GRADSYNC_TOOLS_TABLES_WORDS_H_
#define GRADSYNC_TOOLS_TABLES_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/statistics/estimates.h"

// Numbers and lists as people read them, in tables and sentences.
namespace gradsync::tools {

// "a", "a and b", "a, b and c".
std::string Listed(const std::vector<std::string>& items);

// A finite number with `decimals` decimals. What is rounded to zero has no sign.
std::string Fixed(double value, int decimals);

// A finite number with `digits` significant digits; with an exponent only below this, where leading zeros are
// harder to read.
inline constexpr double kSmallestFixed = 1e-5;
std::string Significant(double value, int digits);

// "tiny b2 s64" for "tiny, batch 2, sequence 64", where there is little room.
std::string Brief(const std::string& place);

// "14 to 19 %" for {0.14, 0.19}; "up to 19 %" where the lower end is next to nothing.
std::string PercentRange(const Interval& interval);
// "4 %", "0.3 %": rounded down, and up, so that "at least" and "at most" hold. Not below 0.
std::string PercentAtLeast(double part);
std::string PercentAtMost(double part);

// "8B", "64KiB", "1MiB".
std::string SizeText(int64_t bytes);
// "31 to 36 ms", "0.31 to 0.36 s".
std::string TimeRange(const Interval& seconds);
// "13.7 us", "118 ms", "1.1 s".
std::string TimeText(double seconds);
// "200 Mbit/s", "4 Gbit/s".
std::string RateText(double bits_per_second);
// "1 rank", "2 ranks".
std::string RankCount(int64_t num_ranks);
// How long a measurement takes, as options take it, rounded up: "40s", "6m", "3h".
std::string DurationFlag(double seconds);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_WORDS_H_
