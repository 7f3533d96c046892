#pragma once

#include <vector>

#include "tools/analysis/rows.h"

// Estimates how much longer one strategy's steps are than another's, from the differences of their steps in
// each round. In a round each strategy takes one step.
namespace gradsync::tools {

// Computes the fields of a setting whose strategies took turns: the number and duration of rounds, the
// estimate of each comparison, and the costs.
void EstimateInTurn(Setting* setting);

// Returns how much more the launches of a setting differ than the scatter within a launch explains.
LaunchEffect FindLaunchEffect(const Setting& setting);

// Returns, for each pair, by how much the step of `own` is longer than the step of `base`, as a fraction of
// the latter. With a probability of 95 %, all these intervals contain the true values. Their low ends are at
// least -1, because no step takes less time than none. Without Setting::takes_turns() there are no intervals.
struct RowPair {
  const Row* own;
  const Row* base;
};
using RowPairs = std::vector<RowPair>;
std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs);
// Returns, for each pair, the cost of `own` minus the cost of `base` (see Cost), in seconds; NaN if a cost is
// unknown or `own` does not communicate.
std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs);

// Returns bounds[i][j]: the step of comparisons[i].row is longer than the step of comparisons[j].row by at
// least this fraction of the baseline's step, which all comparisons share (Hsu's comparisons with the best,
// see LeastDifferences). With a probability of 95 %, all bounds of the truly fastest row are at most 0. So a
// row may be the fastest unless one of its bounds is above 0. NaN if Setting::takes_turns() is false.
std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& comparisons);
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools
