#include <algorithm>
#include <cmath>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"
#include "tools/reports/scale.h"

namespace gradsync::tools {
namespace {

constexpr double kMega = 1e6;

std::string NameOf(const LearningRow& row) { return row.measured->record.variant.label(); }

// The row's loss less the baseline's in per cent of that, after each step that was judged: the mean over
// seeds that both have, and from the lowest to the highest of them.
std::vector<ChartPoint> DifferencesOf(const LearningCell& cell, const LearningRow& row) {
  std::vector<ChartPoint> points;
  for (size_t i = 0; i < cell.steps.size(); ++i) {
    std::vector<double> percents;
    for (const LearningRow::Trial& trial : row.trials) {
      for (const LearningRow::Trial& base : cell.rows[cell.baseline].trials) {
        const double percent = 100 * (trial.bits[i] / base.bits[i] - 1);
        if (base.seed == trial.seed && IsDrawable(percent)) percents.push_back(percent);
      }
    }
    if (percents.empty()) continue;
    const auto [low, high] = std::ranges::minmax(percents);
    points.push_back({cell.steps[i], Mean(percents), low, high,
                      Join(NameOf(row), ", ", cell.steps[i], " steps: ", Signed(Mean(percents), 1), " %")});
  }
  return points;
}

}  // namespace

Figure LearningFigure(const std::vector<LearningCell>& cells) {
  Figure figure{
      .id = "convergence",
      .table = "convergence",
      .caption =
          "Loss on held-out text less that of the baseline with the same seed, in per cent of it; below 0 "
          "is better. Over steps: means over seeds, in bands that hold every seed. After the last step: "
          "with 95 % intervals that hold for all rows at once."};
  std::vector<LineChart> lines;
  for (const LearningCell& cell : cells) {
    if (cell.baseline == Row::kNone || cell.rows.size() < 2) continue;
    const LearningRow& base = cell.rows[cell.baseline];
    const std::string difference = Join("loss, % above ", NameOf(base));
    LineChart over_steps{.x_label = "steps", .y_label = difference, .reference = 0};
    LineChart over_bytes{
        .x_label = "sent by each rank (MB per step)", .y_label = difference, .log_x = true, .reference = 0};
    RowChart at_end{.x_label = Join("% of the loss of ", NameOf(base)),
                    .left_label = "← better",
                    .right_label = "worse →"};
    for (const LearningRow& row : cell.rows) {
      const size_t number = over_bytes.series.size();
      ChartSeries series{
          .name = NameOf(row), .style = Join("c-", 1 + number % kNumColours), .marker = number};
      const bool is_base = &row == &base;
      const Estimate end = is_base ? Estimate{0} : row.against_baseline, percent = Scaled(end, 100);
      const std::string text = Join(series.name, ": ", PercentText(end));
      series.points = {{row.bytes_per_step / kMega, percent.value, percent.interval.low,
                        percent.interval.high,
                        Join(text, ", ", Readable(row.bytes_per_step / kMega, 3), " MB")}};
      over_bytes.series.push_back(series);
      if (is_base) continue;
      series.points = DifferencesOf(cell, row);
      over_steps.series.push_back(std::move(series));
      if (!end.interval.is_known()) continue;
      at_end.rows.push_back({.name = NameOf(row),
                             .value = PercentText(end),
                             .style = std::string(WordOf(row.verdict)),
                             .at = percent.value,
                             .low = percent.interval.low,
                             .high = percent.interval.high,
                             .tip = text});
    }
    std::ranges::stable_sort(at_end.rows, {}, &ChartRow::at);
    const std::string place = cells.size() > 1 ? RankCount(cell.record().world_size) + ": " : "";
    over_steps.title = place + "difference to the baseline over steps";
    over_bytes.title = place + "difference after the last step over bytes sent";
    at_end.title = place + "difference after the last step";
    figure.panels.push_back({over_steps.title, DrawLines(over_steps)});
    if (!at_end.rows.empty()) {
      figure.panels.push_back({at_end.title, DrawRows(at_end)});
      figure.panels.push_back({over_bytes.title, DrawLines(over_bytes)});
    }
    lines.push_back(std::move(over_bytes));
  }
  figure.key = SeriesKey(lines);
  return figure;
}

}  // namespace gradsync::tools
