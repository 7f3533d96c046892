#pragma once

#include <string>

#include "tools/statistics/estimates.h"

// Texts of settings and intervals, for tables and sentences.
namespace gradsync::tools {

// Returns "tiny b2 s64" for "tiny, batch 2, sequence 64".
std::string Brief(const std::string& place);

// Returns "14 to 19 %" for {0.14, 0.19}; "up to 19 %" if the lower end is nearly 0.
std::string PercentRange(const Interval& interval);
// Return "4 %" or "0.3 %": rounded down for "at least", and rounded up for "at most", and not below 0.
std::string PercentAtLeast(double part);
std::string PercentAtMost(double part);

// Returns "31 to 36 ms" or "0.31 to 0.36 s".
std::string TimeRange(const Interval& seconds);

}  // namespace gradsync::tools
