#include "tools/statistics/regression.h"

#include <algorithm>

namespace gradsync::tools {
namespace {

Verdict VerdictOn(const PairOfSamples& row, const Interval& interval, double threshold) {
  if (row.there.empty()) return Verdict::kOnlyHere;
  if (row.here.empty()) return Verdict::kOnlyThere;
  if (std::min(row.here.size(), row.there.size()) < kFewestForInterval) return Verdict::kTooFew;
  if (interval.low > threshold) return Verdict::kSlower;
  return interval.high < -threshold ? Verdict::kFaster : Verdict::kNotShown;
}

}  // namespace

std::vector<Judgement> JudgeRows(const std::vector<PairOfSamples>& rows, const GateOptions& options) {
  std::vector<ComparedSamples> samples;
  for (const PairOfSamples& row : rows) {
    const bool has_both = !row.here.empty() && !row.there.empty();
    if (!has_both) {
      samples.emplace_back();
      continue;
    }
    samples.push_back({row.here, row.there, Pairing::kNone, row.launches_here, row.launches_there});
  }
  const std::vector<Interval> intervals = Bootstrap(options.bootstrap).Simultaneous(samples);
  std::vector<Judgement> judgements;
  for (size_t i = 0; i < rows.size(); ++i) {
    judgements.push_back({RelativeDifference(rows[i].here, rows[i].there), intervals[i],
                          VerdictOn(rows[i], intervals[i], options.threshold)});
  }
  return judgements;
}

}  // namespace gradsync::tools
