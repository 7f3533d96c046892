#pragma once

#include <vector>

#include "tools/analysis/rows.h"

// Compares the step times of rows (strategies) that were measured in rounds. In each round of a launch, each
// row that the launch measures takes one turn.
namespace gradsync::tools {

// Sets the estimates in setting->comparisons and setting->costs, and num_rounds, num_launches, num_looks,
// confidence.chance and round_s of `setting`. The benchmark must have measured the rows of `setting` in
// rounds.
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
// probability of about 95 % or more, the intervals of all pairs contain the true values. The estimates have
// no intervals if Setting::takes_turns() is false (the rows were not measured in rounds, or must not be
// compared). If Setting::takes_turns() is true, a pair with a row that left early (Row::left_early) has the
// estimate NaN.
std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs);
// Returns, for each pair, the cost of synchronisation of `own` minus that of `base`, in seconds per step.
// The cost is a row's step time minus the step time of the strategy without communication. The estimate of a
// pair is NaN if one of its two costs is unknown, if its row `own` does not communicate, or if a row left
// early (Row::left_early). All estimates are NaN if Setting::takes_turns() is false (the rows were not
// measured in rounds, or must not be compared).
std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs);

// Returns bounds[i][j], lower bounds of the step time of comparisons[i]->row minus that of
// comparisons[j]->row. The bounds are fractions of the step time of the baseline, which is the same for all
// `comparisons`. If row i is the fastest, none of its lower bounds bounds[i][j] is above 0, with a
// probability of about 95 % or more. bounds[i][i] is NaN. All bounds are NaN if Setting::takes_turns() is
// false (the rows were not measured in rounds, or must not be compared).
std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& comparisons);
// `leads` is bounds[i], the result of FindLeads for one row i. Returns true if no row is shown to be faster
// than row i: no element of `leads` is above 0.
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools
