#ifndef GRADSYNC_TOOLS_REPORTS_FIGURES_H_
#define GRADSYNC_TOOLS_REPORTS_FIGURES_H_

#include <map>
#include <string>
#include <vector>

#include "tools/reports/svg.h"
#include "tools/tables/rows.h"
#include "tools/tables/summarize.h"

// The figures of the report. They draw the numbers of rows, and compute no statistic of their own.
namespace gradsync::tools {

struct Panel {
  std::string title;
  Svg chart;
};
// What a mark or colour means.
struct KeyEntry {
  Svg mark;  // kMarkWidth x kMarkHeight
  std::string text;
};
inline constexpr double kMarkWidth = 18, kMarkHeight = 14;

struct Figure {
  std::string id{};
  std::string title{};
  std::string caption{};
  std::vector<KeyEntry> key{};
  std::vector<Panel> panels{};
  // What has no panel because its data decide nothing: titles, by the reason.
  std::map<std::string, std::vector<std::string>> undecided{};
};

// The panels in two columns, below the key: a document of its own.
std::string PictureOf(const Figure& figure);

// Each makes a figure without panels and lines where there is nothing for it.

// What a step is made of: a panel for each cell and backend, those of a cell beside each other on one scale.
// In each the floor, and a bar for each variant.
Figure CostFigure(const std::vector<Cell>& cells);

// Held-out loss over steps, seconds and bytes sent: a panel of each for each cell.
Figure LearningFigure(const std::vector<LearningCell>& cells);

// All of them, in the order of a report.
std::vector<Figure> FiguresOf(const Summary& summary);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_FIGURES_H_
