#ifndef GRADSYNC_TOOLS_TABLES_COMPARE_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_COMPARE_FINDINGS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/records/validity.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/findings.h"

// Sentences that say what strategies over bucket sizes show, and no more than the intervals carry.
namespace gradsync::tools {

// A strategy against the baseline, in one phase and at one size.
struct SizeComparison {
  std::string phase;
  std::string strategy;
  std::string baseline;
  double delta_percent = 0;
  Interval interval_percent;  // of those that hold at once; NaN where there are no samples
  size_t num_steps = 0;
};

// Collects one series over sizes.
class CompareFindings {
 public:
  // Times of a strategy in a phase, size after size. `has_winner`: whether it is said who is fastest in it.
  void AddTimes(const std::string& phase, bool has_winner, const Measured& row, const Series& times,
                const Flags& flags);
  void Compare(Intervals* intervals);
  void AddComparison(SizeComparison comparison);

  // First, for each phase that has a winner, at how many sizes each strategy is fastest, as Contest has it,
  // steps first. Then, for each phase and strategy, at how many sizes it is slower or faster than the
  // baseline: a size counts if the interval excludes 0; none does with fewer than 10 steps. None if there are
  // too many rows for sentences.
  std::vector<std::string> Sentences(const Intervals& intervals) const;
  void AddDifferences(const Intervals& intervals, Table* table) const;

 private:
  struct Phase {
    std::string name;
    std::vector<Case> cases{};  // sizes; empty if it has no winner
    std::string baseline{};
    std::vector<SizeComparison> comparisons{};
    std::optional<Contest> contest{};  // once all sizes are there
  };

  std::vector<Phase> phases_;  // in the order in which they were first met
  size_t num_times_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_COMPARE_FINDINGS_H_
