#ifndef GRADSYNC_TOOLS_TABLES_GRID_OUTLIERS_H_
#define GRADSYNC_TOOLS_TABLES_GRID_OUTLIERS_H_

#include <string>
#include <vector>

namespace gradsync::tools {

struct GridCell {
  std::string grid;    // what all strategies of it have in common
  std::string series;  // a strategy, in one run
  double batch_size = 0;
  double seq_len = 0;
  double step_s = 0;
};

// Which cells hold a time that their neighbours do not lead to expect. A cell departs if its time is more
// than 25 % off the line through the other cells of its series over tokens per step (Theil and Sen's: medians
// of slopes and of offsets, which one outlier does not bend), and by 10 scaled median absolute deviations
// too. Where other series of the grid have the same place, their times there, each relative to this series's
// usual proportion to it, must disagree as much: what is slow for every strategy is no outlier. A series of
// fewer than five cells has none.
std::vector<bool> OutlierCells(const std::vector<GridCell>& cells);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_GRID_OUTLIERS_H_
