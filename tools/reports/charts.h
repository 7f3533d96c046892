#ifndef GRADSYNC_TOOLS_REPORTS_CHARTS_H_
#define GRADSYNC_TOOLS_REPORTS_CHARTS_H_

#include <string>
#include <vector>

#include "tools/reports/svg.h"
#include "tools/statistics/statistics.h"

// Charts, and how they and the page around them look. A chart is 380 units wide. Its text can be read where
// it is shown 340 to 460 pixels wide.
namespace gradsync::tools {

// Of charts, in a page or a document of their own, light and dark. Of the palettes (one for light, one for
// dark) the first colours were chosen to stay apart for people with protanopia, deuteranopia or tritanopia,
// and each stands out from the page by at least 3 : 1.
extern const char kChartStyleSheet[];
// Of the page, from a phone's width up, and on paper.
extern const char kPageStyleSheet[];

inline constexpr double kChartWidth = 380;

// Values that cannot be drawn (see IsDrawable; on a logarithmic axis those that are not positive either) are
// left out.
struct ChartPoint {
  double x = 0;
  double y = 0;
  double low = kNaN;  // of a band around the line; both ends or none
  double high = kNaN;
  std::string tip{};
};

struct ChartSeries {
  std::string name{};
  std::string style{};  // a class that sets the colour
  size_t marker = 0;    // see Svg::Marker
  std::vector<ChartPoint> points{};
};

struct LineChart {
  std::string title{};  // for screen readers
  std::string x_label{};
  std::string y_label{};
  bool log_x = false;
  double reference = kNaN;  // a dashed line at this y
  std::string reference_name{};
  std::vector<ChartSeries> series{};
};

Svg DrawLines(const LineChart& chart);

struct BarPart {
  std::string name{};
  std::string style{};
  double value = 0;
};

struct Bar {
  std::string name{};
  std::string style{};  // of the whole bar: sets the colour that a part may use
  std::vector<BarPart> parts{};
  double total = kNaN;  // a mark below the bar
  double low = kNaN;    // an interval around the mark
  double high = kNaN;
  std::string total_tip{};
};

struct BarChart {
  std::string title{};  // for screen readers
  std::string x_label{};
  std::string unit{};       // behind values
  double holds = 0;         // the axis, which begins at 0, goes at least so far: panels can share one
  double reference = kNaN;  // a dashed line at this total
  std::string reference_name{};
  std::vector<Bar> bars{};
};

// Horizontal bars below one another, each with its total written at the right.
Svg DrawBars(const BarChart& chart);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_CHARTS_H_
