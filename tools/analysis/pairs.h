#pragma once

#include <vector>

#include "tools/analysis/rows.h"

// Estimates differences between steps of one round.
namespace gradsync::tools {

// Sets the rounds, the estimates of comparisons, and the costs and their parts, for a setting whose variants
// took turns.
void EstimateInTurn(Setting* setting);

// Returns the variation between the launches of a setting.
LaunchEffect FindLaunchEffect(const Setting& setting);

// Returns the difference of the steps of two rows, as a fraction of the step of `base`, for each pair. The
// intervals of all pairs are simultaneous. They are cut off at -1, because no step takes less than no time.
// There are no intervals if Setting::void_reason is set, or if rows did not take turns.
struct RowPair {
  const Row* own;
  const Row* base;
};
using RowPairs = std::vector<RowPair>;
std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs);
// Returns the difference of the costs of two rows, each relative to the row's own floor, in seconds; NaN for
// floors and for rows without a floor.
std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs);

// For rows with one baseline, returns a lower bound of how much longer each row's step is than the step of
// each other row, as a fraction of the baseline's step (Hsu's comparisons with the best, see
// LeastDifferences). In 95 of 100 cases the fastest row has no positive bound, so rows without a positive
// bound may be the fastest. NaN if Setting::void_reason is set.
std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& comparisons);
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools
