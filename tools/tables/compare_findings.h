#ifndef GRADSYNC_TOOLS_TABLES_COMPARE_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_COMPARE_FINDINGS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tools/statistics/statistics.h"

namespace gradsync::tools {

// A strategy against the baseline, in one phase and at one bucket size.
struct SizeComparison {
  std::string phase;
  std::string strategy;
  std::string baseline;
  double delta_percent = 0;
  Interval interval_percent;  // of those that hold at once; NaN where there are no samples
  size_t num_steps = 0;
};

// For each phase and strategy, at how many sizes it is slower or faster than the baseline: a size counts if
// the interval excludes 0; none does with fewer than 10 steps.
std::vector<std::string> TallySentences(const std::vector<SizeComparison>& comparisons);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_COMPARE_FINDINGS_H_
