#include "tools/statistics/regression.h"

#include <algorithm>
#include <limits>

#include "tools/statistics/significance.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLevel = 0.05;

Judgement Measure(const PairOfSamples& row, const GateOptions& options) {
  Judgement judgement{kNaN, {kNaN, kNaN}, kNaN, Verdict::kNotShown};
  if (row.there.empty()) return judgement.verdict = Verdict::kOnlyHere, judgement;
  if (row.here.empty()) return judgement.verdict = Verdict::kOnlyThere, judgement;
  judgement.difference = RelativeDifference(row.here, row.there);
  judgement.interval = BootstrapRelativeDifference(row.here, row.there, Pairing::kNone, options.bootstrap);
  if (std::min(row.here.size(), row.there.size()) < kFewestForInterval) {
    return judgement.verdict = Verdict::kTooFew, judgement;
  }
  const double bound = judgement.difference < 0 ? -options.threshold : options.threshold;
  const bool is_beyond =
      judgement.difference < 0 ? judgement.difference < bound : judgement.difference > bound;
  judgement.p_value = is_beyond ? DifferencePValue(row.here, row.there, Pairing::kNone, bound) : 1;
  return judgement;
}

}  // namespace

std::vector<Judgement> JudgeRows(const std::vector<PairOfSamples>& rows, const GateOptions& options) {
  std::vector<Judgement> judgements;
  std::vector<double> p_values;
  for (const PairOfSamples& row : rows) {
    judgements.push_back(Measure(row, options));
    p_values.push_back(judgements.back().p_value);
  }
  p_values = HolmAdjusted(p_values);
  for (size_t i = 0; i < judgements.size(); ++i) {
    Judgement& judgement = judgements[i];
    judgement.p_value = p_values[i];
    if (judgement.verdict != Verdict::kNotShown || !(judgement.p_value < kLevel)) continue;
    if (judgement.interval.low > options.threshold) judgement.verdict = Verdict::kSlower;
    if (judgement.interval.high < -options.threshold) judgement.verdict = Verdict::kFaster;
  }
  return judgements;
}

}  // namespace gradsync::tools
