#ifndef GRADSYNC_BENCH_TRAINING_SUMMARY_H_
#define GRADSYNC_BENCH_TRAINING_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/case.h"
#include "bench/training/stop_rule.h"

namespace gradsync::bench {

// One word about a record's checks: "equal", "WRONG", "replicas drift" where they are meant to, or "not
// checked".
std::string VerdictWord(const Fields& checks, bool drifts);

// What a summary needs of the steps of one rank's record, to be put together by MaxOverRanks: the step;
// forward, backward and synchronisation; forward and backward, empty if that is not known.
StepTimes TimesForSummary(const Record& record);

// A line for each variant, with the same statistics as the tables of //tools:summarize, which has their
// intervals too: means over steps, each step being as long as on its slowest rank. What a strategy costs is
// its step less that of `none` in the same case; a part of that is exposed (forward, backward and
// synchronisation less forward and backward), another is tax (forward and backward less those of `none`).
class Summary {
 public:
  // All cases have labels of the same names. `times`: of the slowest rank.
  void Add(const Case& the_case, const VariantSpec& variant, const StepTimes& times);
  // Of the variant that was added as number `i`.
  void SetVerdict(size_t i, std::string word) { rows_[i].verdict = std::move(word); }
  size_t size() const { return rows_.size(); }
  std::string ToString() const;

 private:
  struct Row {
    CaseLabels labels;
    std::string variant;
    double step_ns = 0, synced_ns = 0, computed_ns = 0;  // NaN: not known
    std::string verdict = "not checked";
  };
  std::vector<std::string> CellsOf(const Row& row) const;

  std::vector<Row> rows_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_SUMMARY_H_
