#ifndef GRADSYNC_TOOLS_TABLES_PAIRS_H_
#define GRADSYNC_TOOLS_TABLES_PAIRS_H_

#include <utility>
#include <vector>

#include "tools/tables/rows.h"

// Differences of steps of the same round.
namespace gradsync::tools {

// Sets what is known of a setting whose variants took turns: its rounds, the estimates of its comparisons,
// its costs and their parts.
void EstimateInTurn(Setting* setting);

// What its launches have of their own.
LaunchEffect FindLaunchEffect(const Setting& setting);

// The differences of two rows' steps, as parts of the second one's; the intervals of all of them hold at
// once. They have none where nothing may be said (Setting::void_reason), or where rows did not take turns.
using RowPairs = std::vector<std::pair<const Row*, const Row*>>;
std::vector<Estimate> CompareSteps(const Setting& setting, const RowPairs& pairs);
// The same of what two rows cost over their own floors, in seconds; NaN for floors and without them.
std::vector<Estimate> CompareCosts(const Setting& setting, const RowPairs& pairs);

// Of rows with one baseline, by how much each row's step is at least longer than each other's, as a part of
// the baseline's step (Hsu's comparisons with the best, see LeastDifferences): the fastest row has no
// positive one in 95 cases of 100. So rows without a positive one may be the fastest. NaN where nothing may
// be said.
std::vector<std::vector<double>> FindLeads(const Setting& setting,
                                           const std::vector<const Comparison*>& comparisons);
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_PAIRS_H_
