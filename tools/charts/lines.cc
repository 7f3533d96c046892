#include <algorithm>
#include <cmath>
#include <optional>

#include "model/error.h"
#include "tools/charts/chart.h"
#include "tools/charts/scale.h"
#include "tools/charts/svg.h"
#include "tools/render/text.h"

namespace gradsync::tools {
namespace {

constexpr double kTop = 26, kPlotHeight = 190, kAxisHeight = 40, kGap = 7, kLineHeight = 14.5;
constexpr size_t kLongestName = kLongestSeriesName;
constexpr int kXTicks = 5, kYTicks = 5;
constexpr double kBottom = kTop + kPlotHeight;

bool IsDrawableOn(double value, bool is_log) { return IsDrawable(value) && (!is_log || value > 0); }

bool IsDrawable(const ChartPoint& point, const LineChart& chart) {
  return IsDrawableOn(point.x, chart.log_x) && IsDrawableOn(point.y, chart.log_y);
}

bool HasBand(const ChartPoint& point, const LineChart& chart) {
  return IsDrawableOn(point.low, chart.log_y) && IsDrawableOn(point.high, chart.log_y);
}

// The values that an axis has to hold.
struct Range {
  std::optional<double> low;
  std::optional<double> high;

  void Include(double value) {
    low = std::min(low.value_or(value), value);
    high = std::max(high.value_or(value), value);
  }
};

struct Plot {
  Scale x;
  Scale y;
  double left;
  double right;
};

Scale YScale(const LineChart& chart, const Range& range) {
  // Without any value the axes stand there empty.
  const double low = range.low.value_or(1), high = range.high.value_or(1);
  return chart.log_y ? Scale::Log(low, high, kBottom, kTop, kYTicks)
                     : Scale::Linear(low, high, kBottom, kTop, kYTicks, Scale::Ends::kTicks);
}

Plot MakePlot(const LineChart& chart) {
  Range x_range, y_range;
  double names_width = 0;
  for (const ChartSeries& series : chart.series) {
    if (chart.has_names) {
      names_width = std::max(names_width, TextWidth(Shortened(series.name, kLongestName)));
    }
    for (const ChartPoint& point : series.points) {
      if (!IsDrawable(point, chart)) continue;
      x_range.Include(point.x);
      y_range.Include(point.y);
      if (!HasBand(point, chart)) continue;
      y_range.Include(point.low);
      y_range.Include(point.high);
    }
  }
  for (const double value : {chart.reference, chart.y_holds}) {
    if (IsDrawableOn(value, chart.log_y)) y_range.Include(value);
  }
  if (chart.from_zero && !chart.log_y) y_range.Include(0);
  const Scale y = YScale(chart, y_range);
  double left = 0;
  for (const Tick& tick : y.ticks()) left = std::max(left, TextWidth(tick.label) + kGap + 3);
  const double right = kChartWidth - names_width - 2 * kGap;
  const double x_low = x_range.low.value_or(1), x_high = x_range.high.value_or(1);
  // The first and the last marker keep clear of the axis and of the names.
  Scale x = chart.log_x ? Scale::Log(x_low, x_high, left + 6, right - 6, kXTicks)
                        : Scale::Linear(x_low, x_high, left + 6, right - 6, kXTicks, Scale::Ends::kExact);
  if (!chart.x_ticks.empty()) x.SetTicks(chart.x_ticks);
  return {x, y, left, right};
}

void DrawAxes(const LineChart& chart, const Plot& plot, Svg& svg) {
  svg.Text("axis", 0, 12, "start", chart.y_label);
  for (const Tick& tick : plot.y.ticks()) {
    const double y = plot.y(tick.value);
    svg.Line("grid", plot.left, y, plot.right, y);
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
  svg.Line("axis-line", plot.left, kBottom, plot.right, kBottom);
  svg.Text("axis", (plot.left + plot.right) / 2, kBottom + 35, "middle", chart.x_label);
  if (IsDrawableOn(chart.reference, chart.log_y)) {
    const double y = plot.y(chart.reference);
    svg.Line("reference", plot.left, y, plot.right, y, chart.reference_name);
  }
}

// Calls `draw` with each unbroken run of points for which `has` holds.
template <class Has, class Draw>
void ForEachRun(const std::vector<ChartPoint>& points, Has&& has, Draw&& draw) {
  std::vector<const ChartPoint*> run;
  for (const ChartPoint& point : points) {
    if (has(point)) {
      run.push_back(&point);
    } else if (!run.empty()) {
      draw(run);
      run.clear();
    }
  }
  if (!run.empty()) draw(run);
}

void DrawBand(const ChartSeries& series, const LineChart& chart, const Plot& plot, Svg& svg) {
  const auto has = [&](const ChartPoint& point) { return IsDrawable(point, chart) && HasBand(point, chart); };
  ForEachRun(series.points, has, [&](const std::vector<const ChartPoint*>& run) {
    Svg::Points outline;
    for (const ChartPoint* point : run) outline.emplace_back(plot.x(point->x), plot.y(point->high));
    for (size_t i = run.size(); i-- > 0;) outline.emplace_back(plot.x(run[i]->x), plot.y(run[i]->low));
    if (run.size() > 1) {
      svg.Polygon("band " + series.style, outline);
    } else {
      svg.Line("band-line " + series.style, outline[0].first, outline[0].second, outline[1].first,
               outline[1].second);
    }
  });
}

void DrawSeries(const ChartSeries& series, const LineChart& chart, const Plot& plot, Svg& svg) {
  const auto has = [&](const ChartPoint& point) { return IsDrawable(point, chart); };
  ForEachRun(series.points, has, [&](const std::vector<const ChartPoint*>& run) {
    Svg::Points line;
    for (const ChartPoint* point : run) line.emplace_back(plot.x(point->x), plot.y(point->y));
    if (line.size() > 1) svg.Polyline("line " + series.style, line);
  });
  for (const ChartPoint& point : series.points) {
    if (has(point)) {
      svg.Marker("marker " + series.style, series.marker, plot.x(point.x), plot.y(point.y), point.tip);
    }
  }
}

struct Name {
  const ChartSeries* series;
  double at;  // where the series ends
  double y;   // where the name stands
};

// Moves names apart, the least that makes room for all of them, and back into the plot.
void Spread(std::vector<Name>& names) {
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.y < b.y; });
  for (int round = 0; round < 200; ++round) {
    bool moved = false;
    for (size_t i = 0; i + 1 < names.size(); ++i) {
      const double overlap = names[i].y + kLineHeight - names[i + 1].y;
      if (overlap <= 0.01) continue;
      names[i].y -= overlap / 2;
      names[i + 1].y += overlap / 2;
      moved = true;
    }
    if (!moved) break;
  }
  // From the top, then from the bottom, for what the rounds above left too close.
  double free_from = kTop - 8;
  for (Name& name : names) {
    name.y = std::max(name.y, free_from);
    free_from = name.y + kLineHeight;
  }
  double free_to = std::max(kBottom, free_from - kLineHeight);
  for (size_t i = names.size(); i-- > 0;) {
    names[i].y = std::min(names[i].y, free_to);
    free_to = names[i].y - kLineHeight;
  }
}

void DrawNames(const LineChart& chart, const Plot& plot, Svg& svg) {
  std::vector<Name> names;
  for (const ChartSeries& series : chart.series) {
    const auto last = std::find_if(series.points.rbegin(), series.points.rend(),
                                   [&](const ChartPoint& point) { return IsDrawable(point, chart); });
    if (last == series.points.rend()) continue;
    names.push_back({&series, plot.y(last->y), plot.y(last->y)});
  }
  Spread(names);
  for (const Name& name : names) {
    const std::string text = Shortened(name.series->name, kLongestName);
    svg.Line("leader " + name.series->style, plot.right - 1, name.at, plot.right + kGap, name.y);
    svg.Text("name series-name " + name.series->style, plot.right + kGap + 3, name.y + 4, "start", text,
             text == name.series->name ? "" : name.series->name);
  }
}

}  // namespace

std::string DrawLines(const LineChart& chart) {
  const Plot plot = MakePlot(chart);
  Svg svg(kChartWidth, kBottom + kAxisHeight,
          Join(chart.title, ": ", chart.y_label, " over ", chart.x_label));
  DrawAxes(chart, plot, svg);
  for (const ChartSeries& series : chart.series) DrawBand(series, chart, plot, svg);
  for (const ChartSeries& series : chart.series) DrawSeries(series, chart, plot, svg);
  if (chart.has_names) DrawNames(chart, plot, svg);
  return svg.Finish();
}

}  // namespace gradsync::tools
