#ifndef GRADSYNC_TOOLS_REPORTS_FIGURES_H_
#define GRADSYNC_TOOLS_REPORTS_FIGURES_H_

#include <string>
#include <vector>

#include "tools/reports/charts.h"
#include "tools/reports/svg.h"
#include "tools/tables/rows.h"
#include "tools/tables/summarize.h"

// The figures of the report. Each answers one question, and its title is the answer. They draw the numbers of
// rows.
namespace gradsync::tools {

struct Panel {
  std::string title;  // may be empty
  Svg chart;
};

struct Figure {
  std::string id{};     // as in --figure
  std::string table{};  // the name of the table whose numbers it shows
  std::string title{};  // the answer
  std::string caption{};
  std::vector<KeyEntry> key{};
  std::vector<Panel> panels{};
};

// What --figure takes.
inline constexpr const char* kFigureNames[] = {"differences", "cost",        "tokens",  "bandwidth",
                                               "links",       "convergence", "timeline"};

// Title, key and panels below each other: a document of its own, which can be read on a phone.
std::string PictureOf(const Figure& figure);

// Each makes a figure without panels where there is nothing for it.

// Each row's difference to its baseline with its interval, sorted: a panel for each place, or for each row
// where a run has fewer rows than places.
Figure DifferencesFigure(const std::vector<Cell>& cells);

// Where a step's time goes beyond the floor's: the parts of what synchronisation costs, and its interval. A
// panel for each run and backend; those of a run have one scale.
Figure CostFigure(const std::vector<Cell>& cells);

// The same cost as a share of the row's own step, over the tokens of a step, where a run has several numbers
// of them.
Figure TokensFigure(const std::vector<Cell>& cells);

// Bus bandwidth over size.
Figure BandwidthFigure(const std::vector<Cell>& cells);

// Which strategy is faster than the baseline over which link: a map of the differences, by rate.
Figure LinksFigure(const std::vector<Cell>& cells);

// Held-out loss less that of the baseline: over steps, and after the last one.
Figure LearningFigure(const std::vector<LearningCell>& cells);

// Those with panels, in the order of a report.
std::vector<Figure> FiguresOf(const Summary& summary);

// For their keys.
inline constexpr Verdict kVerdicts[] = {Verdict::kFaster, Verdict::kSlower, Verdict::kEqual, Verdict::kOpen};
KeyEntry VerdictKey(Verdict verdict, const char* style);  // in the verdict's colour

// "+4", "−0.3".
std::string Signed(double value, int decimals);
// "−9.3 % [−11.8, −6.8]".
std::string PercentText(const Estimate& part);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_FIGURES_H_
