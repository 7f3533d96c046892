#ifndef GRADSYNC_TOOLS_STATISTICS_REGRESSION_H_
#define GRADSYNC_TOOLS_STATISTICS_REGRESSION_H_

#include <vector>

#include "tools/statistics/statistics.h"

// Whether a program has become slower, over all its rows at once.
namespace gradsync::tools {

enum class Verdict { kSlower, kFaster, kNotShown, kTooFew, kOnlyHere, kOnlyThere };

struct Judgement {
  double difference = 0;  // Mean(sample) / Mean(baseline) - 1; NaN unless both are there
  Interval interval;      // 95 %, for all rows at once
  Verdict verdict = Verdict::kNotShown;
};

struct GateOptions {
  double threshold = 0;  // a difference up to this, such as 0.05, is no verdict
  BootstrapOptions bootstrap;
};

// Each row is the steps of one configuration here (the sample) and there (the baseline), in seconds. An empty
// one: not measured there.
//
// A row is slower, or faster, if its interval lies beyond the threshold. The intervals hold at once (see
// Bootstrap::Simultaneous), so of all rows that are as they were, however many, none is called slower or
// faster in 19 comparisons out of 20. Samples are compared unpaired: nothing ties step i of one program to
// step i of another. Launches are resampled as launches. A row with fewer than kFewestForInterval steps on
// either side is kTooFew.
std::vector<Judgement> JudgeRows(const std::vector<ComparedSamples>& rows, const GateOptions& options = {});

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STATISTICS_REGRESSION_H_
