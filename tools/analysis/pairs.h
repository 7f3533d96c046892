#pragma once

#include <vector>

#include "tools/analysis/rows.h"

// Compares the step times of rows (strategies) that were measured in rounds. In each round, each row takes
// one turn.
namespace gradsync::tools {

// Computes the estimates of a setting whose rows were measured in rounds. Sets Comparison::estimate,
// Setting::costs and the setting's num_rounds, round_s, num_launches, num_looks and confidence.
void EstimateInTurn(Setting* setting);

// Estimates how much the step-time differences between rows and their baselines vary between launches (starts
// of all processes).
LaunchEffect FindLaunchEffect(const Setting& setting);

// two rows to compare
struct RowPair {
  const Row* own;
  const Row* base;
};
using RowPairs = std::vector<RowPair>;
// Returns estimates of (step time of `own`) / (step time of `base`) - 1, one for each pair. With a
// probability of at least 95 %, the intervals of all pairs contain the true values. The estimates have no
// intervals if Setting::takes_turns() is false (the rows were not measured in rounds, or must not be
// compared).
std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs);
// Returns, for each pair, the cost of synchronisation of `own` minus that of `base`, in seconds per step. The
// cost is a row's step time minus the step time of the strategy without communication. An estimate is NaN if
// a cost is unknown, `own` does not communicate or Setting::takes_turns() is false.
std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs);

// Returns bounds[i][j], lower bounds of the step time of comparisons[i]->row minus that of
// comparisons[j]->row. The bounds are fractions of the step time of the baseline, which is the same for all
// `comparisons`. If row i is the fastest, no bounds[i][j] is above 0, with a probability of at least 95 %.
// All bounds are NaN if Setting::takes_turns() is false.
std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& comparisons);
// Returns true if no element of `leads`, the bounds[i] of one row i, is above 0.
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools
