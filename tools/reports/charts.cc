#include "tools/reports/charts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/scale.h"

namespace gradsync::tools {
namespace {

constexpr double kGap = 8, kAxisHeight = 40;
constexpr int kTicks = 5;
constexpr double kLogMargin = 1.15;  // marks keep clear of the axes
constexpr size_t kLongestName = 24;

// Sizes in charts of lines.
constexpr double kTop = 26, kBottom = kTop + 190;

bool IsIn(const LineChart& chart, const ChartPoint& point) {
  return IsDrawable(point.x) && (!chart.log_x || point.x > 0) && IsDrawable(point.y.value) &&
         (!chart.log_y || point.y.value > 0);
}

bool AreDrawable(const Interval& interval) { return IsDrawable(interval.low) && IsDrawable(interval.high); }

bool HasBand(const LineChart& chart, const ChartPoint& point) {
  const Interval& band = point.y.interval;
  return IsIn(chart, point) && AreDrawable(band) && (!chart.log_y || band.low > 0);
}

// An axis that holds a range. Without values it is drawn around 1.
Scale Along(const Interval& range, bool is_log, double from, double to, Scale::Ends ends) {
  const auto [low, high] = range.is_known() ? range : Interval{1, 1};
  return is_log ? Scale::Log(low / kLogMargin, high * kLogMargin, from, to, kTicks)
                : Scale::Linear(low, high, from, to, kTicks, ends);
}

struct Plot {
  Scale x;
  Scale y;
  double left;
};

Plot MakePlot(const LineChart& chart) {
  Interval x_range, y_range;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!IsIn(chart, point)) continue;
      x_range = x_range.With({point.x, point.x});
      y_range = y_range.With({point.y.value, point.y.value});
      if (HasBand(chart, point)) y_range = y_range.With(point.y.interval);
    }
  }
  if (IsDrawable(chart.reference)) y_range = y_range.With({chart.reference, chart.reference});
  const Scale y = Along(y_range, chart.log_y, kBottom, kTop, Scale::Ends::kTicks);
  double left = 0;
  for (const Tick& tick : y.ticks()) left = std::max(left, TextWidth(tick.label) + kGap + 3);
  // The first and the last marker keep clear of the axes.
  return {Along(x_range, chart.log_x, left + 6, kChartWidth - kGap, Scale::Ends::kExact), y, left};
}

void DrawAxes(const LineChart& chart, const Plot& plot, Svg& svg) {
  svg.Text("axis", 0, 12, "start", chart.y_label);
  for (const Tick& tick : plot.y.ticks()) {
    const double y = plot.y(tick.value);
    svg.Line("grid", plot.left, y, kChartWidth, y);
    svg.Text("tick", plot.left - kGap, y + 4, "end", tick.label);
  }
  double free_from = -kGap;
  for (const Tick& tick : chart.x_ticks.empty() ? plot.x.ticks() : chart.x_ticks) {
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
    svg.Line("zero", plot.left, y, kChartWidth, y);
  }
}

void DrawBand(const LineChart& chart, size_t number, const Plot& plot, Svg& svg) {
  Svg::Points outline, back;
  for (const ChartPoint& point : chart.series[number].points) {
    if (!HasBand(chart, point)) continue;
    outline.emplace_back(plot.x(point.x), plot.y(point.y.interval.high));
    back.emplace_back(plot.x(point.x), plot.y(point.y.interval.low));
  }
  const std::string style = SeriesStyle(number);
  if (back.size() == 1)
    svg.Line("band-line " + style, outline[0].first, outline[0].second, back[0].first, back[0].second);
  if (back.size() < 2) return;
  outline.insert(outline.end(), back.rbegin(), back.rend());
  svg.Polygon("band " + style, outline);
}

void DrawSeries(const LineChart& chart, size_t number, const Plot& plot, Svg& svg) {
  Svg::Points line;
  std::vector<std::string> tips;
  for (const ChartPoint& point : chart.series[number].points) {
    if (!IsIn(chart, point)) continue;
    line.emplace_back(plot.x(point.x), plot.y(point.y.value));
    tips.push_back(point.tip);
  }
  const std::string style = SeriesStyle(number);
  if (line.size() > 1) svg.Polyline("line " + style, line);
  for (size_t i = 0; i < line.size(); ++i)
    svg.Marker("marker " + style, number, line[i].first, line[i].second, tips[i]);
}

// Sizes in charts of rows.
constexpr double kHeadingHeight = 22, kNameHeight = 15, kRowHeight = 33, kBarHeight = 10, kMarkerWidth = 8;

double HeightOf(const ChartRow& row) { return kRowHeight + (row.heading.empty() ? 0 : kHeadingHeight); }

// Positive and negative parts lie end to end, each on its side of 0.
void DrawParts(const ChartRow& row, const Scale& scale, double y, Svg& svg) {
  double right = 0, left = 0;
  for (const RowPart& part : row.parts) {
    if (!IsDrawable(part.value) || part.value == 0) continue;
    double& end = part.value > 0 ? right : left;
    const double from = scale(end), to = scale(end += part.value);
    svg.Rect("part " + part.style, std::min(from, to), y, std::abs(to - from), kBarHeight, part.tip);
  }
}

// Over parts the mark and its interval stand below the middle, where they can be told from them.
void DrawMark(const ChartRow& row, const Scale& scale, double y, Svg& svg) {
  if (AreDrawable(row.at.interval)) {
    const double low = scale(row.at.interval.low), high = scale(row.at.interval.high);
    svg.Line("interval " + row.style, low, y, high, y, row.tip);
    for (const double x : {low, high}) svg.Line("interval " + row.style, x, y - 3, x, y + 3);
  }
  if (IsDrawable(row.at.value)) svg.Marker("mark " + row.style, 3, scale(row.at.value), y, row.tip);
}

}  // namespace

std::string SeriesStyle(size_t number) {
  constexpr size_t kNumColours = 11;  // classes c-1, c-2, ... of the style sheet, beside grey
  return Join("c-", 1 + number % kNumColours);
}

Svg DrawLines(const LineChart& chart) {
  const Plot plot = MakePlot(chart);
  Svg svg(kChartWidth, kBottom + kAxisHeight,
          Join(chart.title, ": ", chart.y_label, " over ", chart.x_label));
  DrawAxes(chart, plot, svg);
  for (size_t i = 0; i < chart.series.size(); ++i) DrawBand(chart, i, plot, svg);
  for (size_t i = 0; i < chart.series.size(); ++i) DrawSeries(chart, i, plot, svg);
  return svg;
}

std::vector<KeyEntry> SeriesKey(const std::vector<LineChart>& charts) {
  std::vector<KeyEntry> key;
  for (const LineChart& chart : charts) {
    for (size_t i = 0; i < chart.series.size(); ++i) {
      if (std::ranges::count(key, chart.series[i].name, &KeyEntry::text) > 0) continue;
      Svg& mark = key.emplace_back(KeyEntry{Svg(kMarkWidth, kMarkHeight, ""), chart.series[i].name}).mark;
      mark.Line("line " + SeriesStyle(i), 1, 7, 17, 7);
      mark.Marker("marker " + SeriesStyle(i), i, 9, 7, "");
    }
  }
  return key;
}

Interval RangeOf(const std::vector<ChartRow>& rows) {
  Interval range{0, 0};
  for (const ChartRow& row : rows) {
    double right = 0, left = 0;
    for (const RowPart& part : row.parts) {
      if (IsDrawable(part.value)) (part.value > 0 ? right : left) += part.value;
    }
    for (const double value : {right, left, row.at.value, row.at.interval.low, row.at.interval.high}) {
      if (IsDrawable(value)) range = range.With({value, value});
    }
  }
  return range;
}

Svg DrawRows(const RowChart& chart) {
  const auto [low, high] = chart.range.With(RangeOf(chart.rows));
  const Scale scale =
      Scale::Linear(low, high, kMarkerWidth, kChartWidth - kMarkerWidth, kTicks, Scale::Ends::kExact);
  double bottom = 4, name_width = 0, value_width = 0;
  for (const ChartRow& row : chart.rows) {
    name_width = std::max(name_width, TextWidth(row.name));
    value_width = std::max(value_width, TextWidth(row.value));
  }
  // Values stand behind names, or below where that has no room. Text is narrower than TextWidth says.
  const bool is_below = name_width + kGap + 0.9 * value_width > kChartWidth;
  const double value_x = is_below ? 0 : name_width + kGap, below = is_below ? kNameHeight : 0;
  const auto longest = static_cast<size_t>(kChartWidth / TextWidth("x"));
  for (const ChartRow& row : chart.rows) bottom += HeightOf(row) + below;
  Svg svg(kChartWidth, bottom + kAxisHeight, Join(chart.title, ": ", chart.x_label));
  for (const Tick& tick : scale.ticks()) {
    const double x = scale(tick.value), half = TextWidth(tick.label) / 2;
    svg.Line("grid", x, 0, x, bottom);
    svg.Text("tick", std::clamp(x, half, kChartWidth - half), bottom + 14, "middle", tick.label);
  }
  double y = 0;
  for (const ChartRow& row : chart.rows) {
    if (!row.heading.empty()) {
      y += kHeadingHeight;
      svg.Text("heading over", 0, y - 5, "start", Shortened(row.heading, 54), row.heading);
    }
    const std::string name = Shortened(row.name, longest);
    svg.Text("name over", 0, y + kNameHeight - 3, "start", name, name == row.name ? "" : row.name);
    y += below;
    svg.Text("value over", value_x, y + kNameHeight - 3, "start", row.value);
    // Not through the text: across a minus sign it would make a plus.
    svg.Line("zero", scale(0), y + kNameHeight, scale(0), y + kRowHeight);
    DrawParts(row, scale, y + kNameHeight, svg);
    DrawMark(row, scale, y + kNameHeight + (row.parts.empty() ? kBarHeight / 2 : kBarHeight + 2), svg);
    y += kRowHeight;
  }
  // As much of it as the labels at its sides leave room for.
  const double sides = 2 * std::max(TextWidth(chart.left_label), TextWidth(chart.right_label));
  const std::string x_label =
      Shortened(chart.x_label, static_cast<size_t>((kChartWidth - sides) / TextWidth("x")));
  svg.Text("axis", kChartWidth / 2, bottom + 33, "middle", x_label,
           x_label == chart.x_label ? "" : chart.x_label);
  svg.Text("axis", 0, bottom + 33, "start", chart.left_label);
  svg.Text("axis", kChartWidth, bottom + 33, "end", chart.right_label);
  return svg;
}

Svg DrawMap(const MapChart& chart) {
  constexpr double kCellHeight = 36, kLineHeight = 14;
  double left = kGap;
  for (const auto& [name, cells] : chart.rows)
    left = std::max(left, TextWidth(Shortened(name, kLongestName)) + kGap);
  size_t num_lines = 0;
  std::vector<std::vector<std::string>> headers;
  for (const std::string& column : chart.columns) {
    num_lines = std::max(num_lines, headers.emplace_back(absl::StrSplit(column, ' ')).size());
  }
  const double top = kLineHeight * static_cast<double>(num_lines) + 6;
  const double width = (kChartWidth - left) / static_cast<double>(chart.columns.size());
  const double bottom = top + kCellHeight * static_cast<double>(chart.rows.size());
  Svg note(kChartWidth, 0, "");
  const double end = note.Paragraph("axis", 0, bottom + 18, kChartWidth, kFontSize, chart.note);
  Svg svg(kChartWidth, end - kLineHeight / 2, chart.title);
  for (size_t i = 0; i < headers.size(); ++i) {
    double y = top - 7 - kLineHeight * static_cast<double>(headers[i].size() - 1);
    for (const std::string& word : headers[i]) {
      svg.Text("axis", left + (static_cast<double>(i) + 0.5) * width, y, "middle", word);
      y += kLineHeight;
    }
  }
  double y = top;
  for (const auto& [name, cells] : chart.rows) {
    const std::string shown = Shortened(name, kLongestName);
    svg.Text("name", left - kGap, y + kCellHeight / 2 + 4, "end", shown, shown == name ? "" : name);
    double x = left;
    for (const MapCell& cell : cells) {
      svg.Rect("cell " + cell.style, x + 1, y + 1, width - 2, kCellHeight - 2, cell.tip);
      svg.Text("value", x + width / 2, y + 16, "middle", cell.text, cell.tip);
      svg.Text("axis", x + width / 2, y + 30, "middle", cell.below, cell.tip);
      x += width;
    }
    y += kCellHeight;
  }
  svg.Place(0, 0, note);
  return svg;
}

}  // namespace gradsync::tools
