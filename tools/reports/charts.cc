#include "tools/reports/charts.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/scale.h"

namespace gradsync::tools {
namespace {

constexpr double kGap = 8, kAxisHeight = 40;
constexpr int kTicks = 5;

// Of lines.
constexpr double kTop = 26, kBottom = kTop + 190;

bool IsIn(const LineChart& chart, const ChartPoint& point) {
  return IsDrawable(point.x) && (!chart.log_x || point.x > 0) && IsDrawable(point.y);
}

bool HasBand(const LineChart& chart, const ChartPoint& point) {
  return IsIn(chart, point) && IsDrawable(point.low) && IsDrawable(point.high);
}

// The values that an axis has to hold. Without any, the axis is drawn around 1.
struct Range {
  double low = kNaN, high = kNaN;

  void Include(double value) {
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  Scale Along(bool is_log, double from, double to, Scale::Ends ends) const {
    const double first = std::isnan(low) ? 1 : low, last = std::isnan(high) ? 1 : high;
    return is_log ? Scale::Log(first, last, from, to, kTicks)
                  : Scale::Linear(first, last, from, to, kTicks, ends);
  }
};

struct Plot {
  Scale x;
  Scale y;
  double left;
};

Plot MakePlot(const LineChart& chart) {
  Range x_range, y_range;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!IsIn(chart, point)) continue;
      x_range.Include(point.x);
      y_range.Include(point.y);
      if (!HasBand(chart, point)) continue;
      y_range.Include(point.low);
      y_range.Include(point.high);
    }
  }
  if (IsDrawable(chart.reference)) y_range.Include(chart.reference);
  const Scale y = y_range.Along(false, kBottom, kTop, Scale::Ends::kTicks);
  double left = 0;
  for (const Tick& tick : y.ticks()) left = std::max(left, TextWidth(tick.label) + kGap + 3);
  // The first and the last marker keep clear of the axes.
  return {x_range.Along(chart.log_x, left + 6, kChartWidth - kGap, Scale::Ends::kExact), y, left};
}

void DrawAxes(const LineChart& chart, const Plot& plot, Svg& svg) {
  svg.Text("axis", 0, 12, "start", chart.y_label);
  for (const Tick& tick : plot.y.ticks()) {
    const double y = plot.y(tick.value);
    svg.Line("grid", plot.left, y, kChartWidth, y);
    svg.Text("tick", plot.left - kGap, y + 4, "end", tick.label);
  }
  double free_from = -kGap;
  for (const Tick& tick : plot.x.ticks()) {
    const double x = plot.x(tick.value), half = TextWidth(tick.label) / 2;
    svg.Line("axis-line", x, kBottom, x, kBottom + 4);
    if (x - half < free_from + kGap) continue;
    svg.Text("tick", x, kBottom + 17, "middle", tick.label);
    free_from = x + half;
  }
  svg.Line("axis-line", plot.left, kBottom, kChartWidth, kBottom);
  svg.Text("axis", (plot.left + kChartWidth) / 2, kBottom + 35, "middle", chart.x_label);
  if (IsDrawable(chart.reference)) {
    const double y = plot.y(chart.reference);
    svg.Line("reference", plot.left, y, kChartWidth, y, chart.reference_name);
  }
}

void DrawBand(const ChartSeries& series, const LineChart& chart, const Plot& plot, Svg& svg) {
  Svg::Points outline, back;
  for (const ChartPoint& point : series.points) {
    if (!HasBand(chart, point)) continue;
    outline.emplace_back(plot.x(point.x), plot.y(point.high));
    back.emplace_back(plot.x(point.x), plot.y(point.low));
  }
  if (back.empty()) return;
  if (back.size() == 1)
    return svg.Line("band-line " + series.style, outline[0].first, outline[0].second, back[0].first,
                    back[0].second);
  outline.insert(outline.end(), back.rbegin(), back.rend());
  svg.Polygon("band " + series.style, outline);
}

void DrawSeries(const ChartSeries& series, const LineChart& chart, const Plot& plot, Svg& svg) {
  Svg::Points line;
  for (const ChartPoint& point : series.points) {
    if (IsIn(chart, point)) line.emplace_back(plot.x(point.x), plot.y(point.y));
  }
  if (line.size() > 1) svg.Polyline("line " + series.style, line);
  for (const ChartPoint& point : series.points) {
    if (IsIn(chart, point))
      svg.Marker("marker " + series.style, series.marker, plot.x(point.x), plot.y(point.y), point.tip);
  }
}

// Of bars.
constexpr double kBarsTop = 10, kRowHeight = 27, kBarHeight = 12, kBarTop = 4, kMarkTop = 20.5,
                 kValueWidth = 64;
constexpr size_t kLongestName = 24;

double EndOf(const BarChart& chart) {
  double end = 0;
  const auto include = [&end](double value) {
    if (IsDrawable(value)) end = std::max(end, value);
  };
  for (const double value : {chart.holds, chart.reference}) include(value);
  for (const Bar& bar : chart.bars) {
    double sum = 0;
    for (const BarPart& part : bar.parts) {
      if (IsDrawable(part.value)) sum += std::max(part.value, 0.0);
    }
    for (const double value : {sum, bar.total, bar.high}) include(value);
  }
  return end;
}

void DrawParts(const Bar& bar, const Scale& scale, double y, const std::string& unit, Svg& svg) {
  double sum = 0;
  for (const BarPart& part : bar.parts) {
    if (!IsDrawable(part.value) || part.value <= 0) continue;
    const double from = scale(sum);
    sum += part.value;
    svg.Rect(Join("part ", bar.style, " ", part.style), from, y, scale(sum) - from, kBarHeight,
             Join(bar.name, ", ", part.name, ": ", Readable(part.value, 3), " ", unit));
  }
}

// The total and its interval stand below the bar, on paper, where they can be told from its parts.
void DrawTotal(const Bar& bar, const Scale& scale, double y, Svg& svg) {
  if (IsDrawable(bar.low) && IsDrawable(bar.high)) {
    const double low = scale(bar.low), high = scale(bar.high);
    svg.Line("interval", low, y, high, y, bar.total_tip);
    for (const double x : {low, high}) svg.Line("interval", x, y - 2.5, x, y + 2.5);
  }
  if (IsDrawable(bar.total)) svg.Marker("total", 3, scale(bar.total), y, bar.total_tip);
}

}  // namespace

Svg DrawLines(const LineChart& chart) {
  const Plot plot = MakePlot(chart);
  Svg svg(kChartWidth, kBottom + kAxisHeight,
          Join(chart.title, ": ", chart.y_label, " over ", chart.x_label));
  DrawAxes(chart, plot, svg);
  for (const ChartSeries& series : chart.series) DrawBand(series, chart, plot, svg);
  for (const ChartSeries& series : chart.series) DrawSeries(series, chart, plot, svg);
  return svg;
}

Svg DrawBars(const BarChart& chart) {
  double left = kGap;
  for (const Bar& bar : chart.bars) {
    left = std::max(left, TextWidth(Shortened(bar.name, kLongestName)) + kGap);
  }
  const double right = kChartWidth - kValueWidth;
  const double bottom = kBarsTop + kRowHeight * static_cast<double>(chart.bars.size());
  const Scale scale = Scale::Linear(0, EndOf(chart), left, right, kTicks, Scale::Ends::kExact);
  Svg svg(kChartWidth, bottom + kAxisHeight, Join(chart.title, ": ", chart.x_label));
  for (const Tick& tick : scale.ticks()) {
    const double x = scale(tick.value);
    svg.Line("grid", x, kBarsTop - 4, x, bottom + 3);
    svg.Text("tick", x, bottom + 16, "middle", tick.label);
  }
  if (IsDrawable(chart.reference)) {
    const double x = scale(chart.reference);
    svg.Line("reference", x, kBarsTop - 4, x, bottom + 3, chart.reference_name);
  }
  double y = kBarsTop;
  for (const Bar& bar : chart.bars) {
    const double middle = y + kRowHeight / 2;
    const std::string name = Shortened(bar.name, kLongestName);
    svg.Text("name", left - kGap, middle + 3, "end", name, name == bar.name ? "" : bar.name);
    DrawParts(bar, scale, y + kBarTop, chart.unit, svg);
    DrawTotal(bar, scale, y + kMarkTop, svg);
    svg.Text("value", kChartWidth, middle + 3, "end", Join(Readable(bar.total, 3), " ", chart.unit));
    y += kRowHeight;
  }
  svg.Text("axis", (left + right) / 2, bottom + 34, "middle", chart.x_label);
  return svg;
}

}  // namespace gradsync::tools
