#include "tools/statistics/regression.h"

#include <algorithm>

namespace gradsync::tools {
namespace {

Verdict VerdictOn(const ComparedSamples& row, const Interval& interval, double threshold) {
  if (row.baseline.empty()) return Verdict::kOnlyHere;
  if (row.sample.empty()) return Verdict::kOnlyThere;
  if (std::min(row.sample.size(), row.baseline.size()) < kFewestForInterval) return Verdict::kTooFew;
  if (interval.low > threshold) return Verdict::kSlower;
  return interval.high < -threshold ? Verdict::kFaster : Verdict::kNotShown;
}

}  // namespace

std::vector<Judgement> JudgeRows(const std::vector<ComparedSamples>& rows, const GateOptions& options) {
  std::vector<ComparedSamples> compared = rows;
  for (ComparedSamples& row : compared) {
    if (row.sample.empty() || row.baseline.empty()) row = {};
  }
  const std::vector<Interval> intervals = Bootstrap(options.bootstrap).Simultaneous(compared);
  std::vector<Judgement> judgements;
  for (size_t i = 0; i < rows.size(); ++i) {
    judgements.push_back({RelativeDifference(rows[i].sample, rows[i].baseline), intervals[i],
                          VerdictOn(rows[i], intervals[i], options.threshold)});
  }
  return judgements;
}

}  // namespace gradsync::tools
