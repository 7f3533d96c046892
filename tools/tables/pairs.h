#ifndef GRADSYNC_TOOLS_TABLES_PAIRS_H_
#define GRADSYNC_TOOLS_TABLES_PAIRS_H_

#include <utility>
#include <vector>

#include "tools/tables/rows.h"

// Differences of steps of the same round.
namespace gradsync::tools {

// Of a cell whose variants took turns: its rounds, the coefficient of forward and whose forward it is used
// of, differences to baselines, costs and their parts.
void EstimateInTurn(Cell* cell);

// The differences of two rows' steps, as parts of the second one's; the intervals of all of them hold at
// once. They have none where nothing may be said (Cell::void_reason), or where rows did not take turns.
std::vector<Estimate> CompareSteps(const Cell& cell,
                                   const std::vector<std::pair<const Row*, const Row*>>& pairs);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_PAIRS_H_
