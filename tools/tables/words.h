#pragma once

#include <string>

#include "tools/statistics/estimates.h"

// Settings and intervals as people read them, in tables and sentences.
namespace gradsync::tools {

// "tiny b2 s64" for "tiny, batch 2, sequence 64", where there is little room.
std::string Brief(const std::string& place);

// "14 to 19 %" for {0.14, 0.19}; "up to 19 %" where the lower end is next to nothing.
std::string PercentRange(const Interval& interval);
// "4 %", "0.3 %": rounded down, and up, so that "at least" and "at most" hold. Not below 0.
std::string PercentAtLeast(double part);
std::string PercentAtMost(double part);

// "31 to 36 ms", "0.31 to 0.36 s".
std::string TimeRange(const Interval& seconds);

}  // namespace gradsync::tools
