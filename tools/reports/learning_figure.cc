#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"
#include "tools/reports/scale.h"
#include "tools/tables/answers.h"

namespace gradsync::tools {
namespace {

// Short names of the rows: options that --tune has chosen are left out where all rows of a strategy have them
// and still differ without.
std::vector<std::string> NamesOf(const LearningCell& cell) {
  std::vector<bench::Variant> variants;
  for (const LearningRow& row : cell.rows) variants.push_back(row.measured->record.variant);
  for (const LearningRow& row : cell.rows) {
    for (const auto& [option, value] : row.measured->record.variant.options) {
      std::vector<bench::Variant> shorter = variants;
      bool all_have_it = true;
      std::set<std::string> names;
      for (bench::Variant& variant : shorter) {
        if (variant.strategy == row.measured->record.variant.strategy)
          all_have_it &= variant.tuned && variant.options.erase(option) > 0;
        names.insert(variant.name());
      }
      if (all_have_it && names.size() == variants.size()) variants = std::move(shorter);
    }
  }
  std::set<std::string> backends;
  for (const bench::Variant& variant : variants) backends.insert(variant.backend);
  std::vector<std::string> names;
  for (const bench::Variant& variant : variants)
    names.push_back(backends.size() == 1 ? variant.label() : variant.name());
  return names;
}

// The row's loss less the baseline's in per cent of that, after each step that was judged: the mean over
// seeds that both have, and from the lowest to the highest of them.
std::vector<ChartPoint> DifferencesOf(const LearningCell& cell, const LearningRow& row,
                                      const std::string& name) {
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
    points.push_back({cell.steps[i],
                      {Mean(percents), {low, high}},
                      Join(name, ", ", cell.steps[i], " steps: ", Signed(Mean(percents), 1), " %")});
  }
  return points;
}

}  // namespace

Figure LearningFigure(const std::vector<LearningCell>& cells) {
  Figure figure{
      .id = "convergence",
      .table = "convergence",
      .caption =
          "Loss on held-out text less that of the baseline with the same seed, in per cent of it. Over "
          "steps: means over seeds, in bands that hold every seed. After the last step: with 95 % "
          "intervals that hold for all rows at once. Names leave out options that --tune has chosen."};
  std::vector<LineChart> lines;
  std::vector<Answer> answers;
  for (const LearningCell& cell : cells) {
    if (cell.baseline == Row::kNone || cell.rows.size() < 2) continue;
    const std::vector<std::string> names = NamesOf(cell);
    const std::string &base = names[cell.baseline], difference = Join("loss, % above ", base);
    const std::string place = cells.size() > 1 ? RankCount(cell.record().world_size) : "";
    LineChart over_steps{.x_label = "steps", .y_label = difference, .reference = 0};
    RowChart at_end{
        .x_label = Join("% of the loss of ", base), .left_label = "← better", .right_label = "worse →"};
    for (size_t i = 0; i < cell.rows.size(); ++i) {
      const LearningRow& row = cell.rows[i];
      if (i == cell.baseline) continue;
      over_steps.series.push_back({names[i], DifferencesOf(cell, row, names[i])});
      const Estimate& end = row.against_baseline;
      if (!end.interval.is_known()) continue;
      answers.push_back({place, names[i], base, row.verdict, end});
      at_end.rows.push_back({.name = names[i],
                             .value = PercentText(end),
                             .style = std::string(WordOf(row.verdict)),
                             .at = Scaled(end, 100),
                             .tip = Join(names[i], ": ", PercentText(end))});
    }
    std::ranges::stable_sort(at_end.rows, {}, [](const ChartRow& row) { return row.at.value; });
    const std::string in_place = place.empty() ? "" : place + ": ";
    over_steps.title = in_place + "over steps";
    at_end.title = in_place + "after the last step";
    figure.panels.push_back({over_steps.title, DrawLines(over_steps)});
    if (!at_end.rows.empty()) figure.panels.push_back({at_end.title, DrawRows(at_end)});
    lines.push_back(std::move(over_steps));
  }
  figure.title = absl::StrJoin(SentencesOf(answers, {"worse", "better", "held-out loss"}), " ");
  figure.key = SeriesKey(lines);
  return figure;
}

}  // namespace gradsync::tools
