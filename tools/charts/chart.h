#ifndef GRADSYNC_TOOLS_CHARTS_CHART_H_
#define GRADSYNC_TOOLS_CHARTS_CHART_H_

#include <limits>
#include <string>
#include <vector>

// Charts, drawn as inline SVG for a page whose style sheet has the classes of report_style.h. One panel is
// 380 units wide and is meant to be shown 340 to 460 pixels wide, where its text can be read.
namespace gradsync::tools {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kChartWidth = 380;
// Of a longer name at a line's end, its beginning is shown.
inline constexpr size_t kLongestSeriesName = 16;

// Values that cannot be drawn (see IsDrawable; on a logarithmic axis those that are not positive either) are
// left out: a line has a gap there.

struct ChartPoint {
  double x = 0;
  double y = 0;
  double low = kNoValue;  // of a band around the line; both ends or none
  double high = kNoValue;
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
  bool log_y = false;
  bool from_zero = false;       // a linear y axis holds 0
  double y_holds = kNoValue;    // the y axis holds this too, so that panels can share one
  double reference = kNoValue;  // a dashed line at this y
  std::string reference_name{};
  std::vector<double> x_ticks{};  // empty: chosen
  bool has_names = true;          // of series, at their ends
  std::vector<ChartSeries> series{};
};

// Names never lie on one another.
std::string DrawLines(const LineChart& chart);

struct BarPart {
  std::string name{};
  std::string style{};
  double value = 0;
};

struct Bar {
  std::string name{};
  std::string style{};  // of the whole bar: sets the colour that a part may use
  std::vector<BarPart> parts{};
  double total = kNoValue;  // a mark below the bar: parts need not add up to it
  double low = kNoValue;    // an interval around or beside the mark
  double high = kNoValue;
  std::string interval_tip{};
};

struct BarChart {
  std::string title{};  // for screen readers
  std::string x_label{};
  std::string unit{};           // behind values
  double reference = kNoValue;  // a dashed line at this total
  std::string reference_name{};
  std::vector<Bar> bars{};
};

// Horizontal bars below one another, each with its total written at the right.
std::string DrawBars(const BarChart& chart);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_CHARTS_CHART_H_
