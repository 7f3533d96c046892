#pragma once

#include <vector>

#include "tools/analysis/rows.h"

// Estimates how much more time the steps of one strategy take than those of another, from the differences of
// their step times in each round. In a round each strategy has one turn: one timed step, or a fixed number of
// successive timed steps, whose mean time counts as the time of one step.
namespace gradsync::tools {

// Computes the estimates of a setting whose strategies had one turn each in every round. Sets
// Comparison::estimate (how much longer a row's step is than its baseline's step) and Setting::costs (the
// costs of synchronisation). Also sets the setting's num_rounds, round_s (the duration of one round),
// num_launches, num_looks (planned checks whether intervals are narrow enough) and confidence (the allowed
// probability of a wrong interval).
void EstimateInTurn(Setting* setting);

// Estimates how much the differences between the step times of rows and of their baselines vary from launch
// to launch (see EstimateLaunches). A launch is one start of all processes.
LaunchEffect FindLaunchEffect(const Setting& setting);

// CompareSteps returns, for each RowPair, how much longer the step of the row `own` is than the step of the
// row `base`, as a fraction of the step of `base`. With a probability of at least 95 %, the intervals of all
// differences that a call returns contain the true differences. The lower end of an interval is never below
// -1 (100 % shorter), because no step takes less than 0 seconds. Estimates have no intervals if the rows were
// not measured in turn, or must not be compared (Setting::takes_turns() is false).
struct RowPair {
  const Row* own;
  const Row* base;
};
using RowPairs = std::vector<RowPair>;
std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs);
// Returns, for each RowPair, the cost of synchronisation in a step of the row RowPair::own minus the cost in
// a step of the row RowPair::base, in seconds. The cost of synchronisation in a row's step is the time of
// this step minus the time of a step of the strategy without communication. The estimate for a RowPair is NaN
// if Setting::costs lacks the cost of `own` or of `base`, or if `own` does not communicate. All estimates are
// NaN if the rows were not measured in turn, or must not be compared (Setting::takes_turns() is false).
std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs);

// Returns lower confidence bounds bounds[i][j]: the step of comparisons[i].row is longer than the step of
// comparisons[j].row by at least bounds[i][j], a fraction of the step of the baseline that all comparisons
// share. LeastDifferences computes these one-sided bounds. If row i is truly the fastest, the probability
// that one of its bounds[i][j] is above 0 is at most 5 %. So row i may be the fastest unless one of its
// bounds[i][j] is above 0. All bounds are NaN if the rows were not measured in turn or must not be compared
// (Setting::takes_turns() is false).
std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& comparisons);
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools
