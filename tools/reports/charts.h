#ifndef GRADSYNC_TOOLS_REPORTS_CHARTS_H_
#define GRADSYNC_TOOLS_REPORTS_CHARTS_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/reports/scale.h"
#include "tools/reports/svg.h"
#include "tools/statistics/estimates.h"

// Charts, and how they and the page around them look. A chart is 380 units wide. Its text can be read where
// it is shown 340 to 460 pixels wide.
namespace gradsync::tools {

// The style of charts, in a page or a document of their own, light and dark. There is a palette for light and
// one for dark. Their first colours were chosen to stay apart for people with protanopia, deuteranopia or
// tritanopia, and each stands out from the page by at least 3 : 1.
extern const char kChartStyleSheet[];
// The style of the page, from a phone's width up, and on paper.
extern const char kPageStyleSheet[];

inline constexpr double kChartWidth = 380;

// Values that cannot be drawn (see IsDrawable; on a logarithmic axis those that are not positive either) are
// left out.
struct ChartPoint {
  double x = 0;
  Estimate y{};  // its interval is a band around the line
  std::string tip{};
};

// The class that sets the n-th colour.
std::string SeriesStyle(size_t number);

// The n-th of a chart has the n-th colour and marker.
struct ChartSeries {
  std::string name{};
  std::vector<ChartPoint> points{};
};

struct LineChart {
  std::string title{};  // for screen readers
  std::string x_label{};
  std::string y_label{};
  std::vector<Tick> x_ticks{};  // empty: round numbers
  bool log_x = false, log_y = false;
  double reference = kNaN;  // a line at this y, which the axis holds
  std::vector<ChartSeries> series{};
};

Svg DrawLines(const LineChart& chart);
// What the lines of all charts mean; a name has the mark of its first one.
std::vector<KeyEntry> SeriesKey(const std::vector<LineChart>& charts);

// A length from the end of the parts before it: to the right of 0, or to its left where it is negative.
struct RowPart {
  std::string style{};  // a class that fills it
  double value = 0;
  std::string tip{};
};

struct ChartRow {
  std::string heading{};  // a line above the row, which begins a group; may be empty
  std::string name{};
  std::string value{};  // stands behind the name, above what is drawn
  std::string style{};  // a class that sets the colour of mark and interval
  std::vector<RowPart> parts{};
  Estimate at{};  // a mark, and an interval around it
  std::string tip{};
};

// Rows below one another along one axis, on which 0 is marked.
struct RowChart {
  std::string title{};  // for screen readers
  std::string x_label{};
  std::string left_label{}, right_label{};  // what it means to lie there
  Interval range{0, 0};                     // which the axis holds at least: charts can share one
  std::vector<ChartRow> rows{};
};

// What the axis of a chart has to hold for its rows.
Interval RangeOf(const std::vector<ChartRow>& rows);
Svg DrawRows(const RowChart& chart);

// Coloured cells in rows and columns.
struct MapCell {
  std::string style{};  // a class that fills it
  std::string text{};
  std::string below{};  // smaller, in a second line
  std::string tip{};
};

struct MapChart {
  std::string title{};                                               // for screen readers
  std::vector<std::string> columns{};                                // "200 Mbit/s": each word has a line
  std::vector<std::pair<std::string, std::vector<MapCell>>> rows{};  // each with a name
  std::string note{};                                                // below: what the texts are
};

Svg DrawMap(const MapChart& chart);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_CHARTS_H_
