#ifndef GRADSYNC_TOOLS_TABLES_PREDICTIONS_H_
#define GRADSYNC_TOOLS_TABLES_PREDICTIONS_H_

#include <string>
#include <vector>

#include "tools/tables/rows.h"

namespace gradsync::tools {

// Sets Row::predicted of every row that can be predicted: from the floor's steps of its own cell (when
// gradients are ready), from its plan, and from `calibrations`, directories or files with records of
// //bench:calibrate. Only records of the same backend, link and number of ranks count, and none of the row's
// own run. Nothing of the row's own steps enters. `inputs`: what the cells were read from. Throws
// InvalidInput where there is nothing at a path.
void AddPredictions(const std::vector<std::string>& inputs, const std::vector<std::string>& calibrations,
                    std::vector<Cell>* cells);

// How far a step is from its prediction, in parts of the step; NaN without one.
double PredictionError(const Row& row);
// The same of what it costs, in parts of the cost.
double CostPredictionError(const Row& row);
// See tools/statistics/estimates.h.
double SecondRunError(const Row& row);
// "yes" where the measured step lies within the interval of its prediction, as far as each is known;
// "unexplained"; empty without a prediction.
std::string IsExplained(const Row& row);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_PREDICTIONS_H_
