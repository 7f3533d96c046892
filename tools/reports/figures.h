#ifndef GRADSYNC_TOOLS_REPORTS_FIGURES_H_
#define GRADSYNC_TOOLS_REPORTS_FIGURES_H_

#include <map>
#include <string>
#include <vector>

#include "tools/reports/charts.h"
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

// One colour and marker for each strategy, everywhere in a report: in the order of the rows, grey for floors.
// After eleven the colours begin again. A peer looks like its twin, dashed.
class StrategyStyles {
 public:
  explicit StrategyStyles(const std::vector<Cell>& cells);

  // Classes of the style sheet: "c-1 peer".
  std::string ClassesOf(const Row& row) const;
  // See Svg::Marker.
  size_t MarkerOf(const Row& row) const { return NumberOf(row); }

 private:
  size_t NumberOf(const Row& row) const;  // 0: a floor

  std::map<std::string, size_t> numbers_;
};

// Each makes a figure without panels and lines where there is nothing for it.

// What a step is made of: a panel for each cell and backend, those of a cell beside each other on one scale.
// In each the floor, and a bar for each variant.
Figure CostFigure(const std::vector<Cell>& cells, const StrategyStyles& styles);
// Difference to the baseline over bucket size, where a strategy was measured with several.
Figure SweepFigure(const std::vector<Cell>& cells, const StrategyStyles& styles);
// Bus bandwidth of collectives over message size.
Figure BandwidthFigure(const std::vector<Cell>& cells);

// Held-out loss over steps, seconds and bytes sent: a panel of each for each cell.
Figure LearningFigure(const std::vector<LearningCell>& cells);

// Adds the charts, and a key of all their series.
void AddPanels(std::vector<LineChart> charts, Figure* figure);

// All of them, in the order of a report.
std::vector<Figure> FiguresOf(const Summary& summary);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_FIGURES_H_
