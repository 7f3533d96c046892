#include <algorithm>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/charts.h"
#include "tools/reports/figures.h"
#include "tools/reports/scale.h"

namespace gradsync::tools {
namespace {

constexpr size_t kNumColours = 11;  // beside grey, in the style sheet

// A point for each step that was judged: the mean over seeds, and from the lowest to the highest of them.
ChartSeries SeriesOf(const LearningCell& cell, size_t number, double scale, const std::string& unit) {
  const LearningRow& row = cell.rows[number];
  ChartSeries series{.name = row.variant(), .style = Join("c-", 1 + number % kNumColours), .marker = number};
  for (size_t i = 0; i < cell.steps.size(); ++i) {
    std::vector<double> bits;
    for (const LearningRow::Trial& trial : row.trials) {
      if (IsDrawable(trial.bits[i])) bits.push_back(trial.bits[i]);
    }
    if (bits.empty()) continue;
    const auto [low, high] = std::ranges::minmax(bits);
    const double x = scale * cell.steps[i];
    series.points.push_back({.x = x,
                             .y = Mean(bits),
                             .low = low,
                             .high = high,
                             .tip = Join(row.variant(), ", ", Readable(x, 3), " ", unit, ": ",
                                         Readable(Mean(bits), 4), " bits per byte")});
  }
  return series;
}

std::vector<KeyEntry> KeyOf(const std::vector<LineChart>& charts) {
  std::vector<KeyEntry> key;
  for (const LineChart& chart : charts) {
    for (const ChartSeries& series : chart.series) {
      if (std::ranges::find(key, series.name, &KeyEntry::text) != key.end()) continue;
      Svg& mark = key.emplace_back(KeyEntry{Svg(kMarkWidth, kMarkHeight, ""), series.name}).mark;
      mark.Line("line " + series.style, 1, 7, 17, 7);
      mark.Marker("marker " + series.style, series.marker, 9, 7, "");
    }
  }
  return key;
}

}  // namespace

Figure LearningFigure(const std::vector<LearningCell>& cells) {
  constexpr double kMega = 1e6;
  struct Axis {
    const char* label;
    const char* unit;
    double (*scale)(const LearningRow& row);
  };
  constexpr Axis kAxes[] = {
      {"steps", "steps", [](const LearningRow&) { return 1.0; }},
      {"seconds of training", "s", [](const LearningRow& row) { return row.step_s; }},
      {"sent by each rank (MB)", "MB", [](const LearningRow& row) { return row.bytes_per_step / kMega; }}};
  Figure figure{
      .id = "convergence",
      .title = "What a model learns",
      .caption =
          "Loss on held-out text, over steps, over seconds of the median step, and over what each rank "
          "has sent. Lines are means over seeds; bands hold all seeds. The dashed line is xz."};
  std::vector<LineChart> charts;
  for (const LearningCell& cell : cells) {
    const bench::Record& record = cell.record();
    for (const Axis& axis : kAxes) {
      LineChart chart{.title = Join(record.config.StringOr("text", ""), ", ", record.world_size, " ranks"),
                      .x_label = axis.label,
                      .y_label = "bits per byte",
                      .log_x = axis.unit == std::string_view("MB"),
                      .reference = cell.bound("xz_bits"),
                      .reference_name = "xz"};
      for (size_t i = 0; i < cell.rows.size(); ++i) {
        ChartSeries series = SeriesOf(cell, i, axis.scale(cell.rows[i]), axis.unit);
        if (!series.points.empty()) chart.series.push_back(std::move(series));
      }
      if (!chart.series.empty()) charts.push_back(std::move(chart));
    }
  }
  for (const LineChart& chart : charts) figure.panels.push_back({chart.title, DrawLines(chart)});
  figure.key = KeyOf(charts);
  return figure;
}

}  // namespace gradsync::tools
