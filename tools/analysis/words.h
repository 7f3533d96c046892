#pragma once

#include <string>

#include "tools/statistics/estimates.h"

// Writes names of settings (model, batch size, ...), fractions, and confidence intervals as short texts.
namespace gradsync::tools {

// Shortens the name of a setting: returns "tiny b2 s64" for "tiny, batch 2, sequence 64".
std::string Brief(const std::string& place);

// Returns "14 to 19 %" for the interval {0.14, 0.19}; "up to 19 %" if the lower end is above 0 but less than
// 2 % of the upper end.
std::string PercentRange(const Interval& interval);
// PercentAtLeast and PercentAtMost return "4 %" for 0.04 and "0.3 %" for 0.003. PercentAtLeast rounds down
// and PercentAtMost rounds up, so that the texts "at least 4 %" and "at most 4 %" are true.
std::string PercentAtLeast(double part);
std::string PercentAtMost(double part);

// Returns "31 to 36 ms" for the interval {0.031, 0.036}, whose ends are in seconds. If the absolute value of
// an end is at least 0.1 s, the text has seconds: "0.31 to 0.36 s".
std::string TimeRange(const Interval& seconds);

}  // namespace gradsync::tools
