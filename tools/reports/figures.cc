#include "tools/reports/figures.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/charts.h"
#include "tools/tables/answers.h"

namespace gradsync::tools {
namespace {

constexpr char kNoBackend[] = "none";  // of strategies that never communicate

// "small, batch 2, sequence 128".
std::string TitleOf(const Cell& cell) {
  const std::string model = cell.any().config().StringOr("model", "");
  if (cell.name.empty() || cell.name.starts_with(model)) return cell.name.empty() ? model : cell.name;
  return model + ", " + cell.name;
}

bool Decides(const Row& row) {
  return (row.verdict != Verdict::kNone && row.verdict != Verdict::kOpen) || row.cost.total.interval.low > 0;
}

std::string WhyUndecided(const Cell& cell) {
  return cell.void_reason.empty() ? "no difference and no cost is shown" : cell.void_reason;
}

bool IsTraining(const Cell& cell) { return !cell.any().strategy().empty(); }

// Parts of a bar: the style of each is its name in the style sheet.
constexpr std::pair<const char*, const char*> kPartKeys[] = {
    {"computation", "forward, backward and optimizer"},
    {"own", "own work: the strategy’s, in BeginStep and hooks"},
    {"tax", "tax: what computation takes longer beside communication"},
    {"exposed", "exposed: the wait after the last rank has computed"},
    {"rest", "the rest"},
    {"whole", "a step whose parts are unknown"}};

// They add up to the step.
std::vector<BarPart> PartsOf(const Row& row, double scale) {
  if (row.is_floor()) return {{"computation", "computation", scale * row.step_s}};
  if (std::isnan(row.cost.exposed)) return {{"step", "whole", scale * row.step_s}};
  std::vector<BarPart> parts(1);
  double computation_s = row.step_s;
  for (const char* const name : {"own", "tax", "exposed", "rest"}) {
    const auto part = std::ranges::find(kCostParts, std::string_view(name), &CostPart::name);
    // What is saved has no length; the tip of the total says it.
    const double seconds = std::max(row.cost.*part->part, 0.0);
    computation_s -= seconds;
    parts.push_back({name, name, scale * seconds});
  }
  parts[0] = {"computation", "computation", scale * computation_s};
  return parts;
}

std::string CostTip(const Row& row, double scale, const std::string& unit) {
  const auto text = [&](double seconds) { return Readable(scale * seconds, 3); };
  std::string tip = Join(row.variant(), ": step ", text(row.step_s), " ", unit);
  const Estimate& total = row.cost.total;
  if (std::isnan(total.value)) return tip;
  tip += Join(", cost ", text(total.value));
  if (total.interval.is_known()) {
    tip += Join(", 95 % CI ", text(total.interval.low), " to ", text(total.interval.high));
  }
  for (const CostPart& part : kCostParts) tip += Join(", ", part.name, " ", text(row.cost.*part.part));
  return tip;
}

double LongestOf(const Cell& cell) {
  double longest_s = 0;
  for (const Row& row : cell.rows) {
    const double high_s = row.step_s - row.cost.total.value + row.cost.total.interval.high;
    longest_s = std::fmax(longest_s, std::fmax(row.step_s, high_s));
  }
  return longest_s;
}

// "core", "bucketed_async 12Mi": without what is the same in the panel.
std::string NameOf(const Row& row) {
  std::string name = row.strategy();
  for (const auto& [option, value] : row.measured->record.variant.options) name += Join(" ", value);
  return name;
}

// One colour for each strategy, in all panels: in the order of the rows, grey for floors. After eleven the
// colours begin again. A peer looks like its twin.
class StrategyStyles {
 public:
  explicit StrategyStyles(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      for (const Row& row : cell.rows) {
        if (!row.is_floor() && !row.is_peer()) numbers_.emplace(row.strategy(), numbers_.size());
      }
    }
  }

  // Classes of the style sheet: "c-1 peer".
  std::string ClassesOf(const Row& row) const {
    constexpr size_t kNumColours = 11;  // beside grey, in the style sheet
    const auto found = numbers_.find(row.is_peer() ? row.facts().StringOr("twin", "") : row.strategy());
    const size_t colour = found == numbers_.end() ? 0 : 1 + found->second % kNumColours;
    return Join("c-", colour, row.is_peer() ? " peer" : "");
  }

 private:
  std::map<std::string, size_t> numbers_;
};

BarChart CostChart(const Cell& cell, const std::vector<const Row*>& rows, const std::string& title,
                   const StrategyStyles& styles) {
  const double longest_s = LongestOf(cell), scale = longest_s >= 1 ? 1 : 1e3;
  BarChart chart{.title = title, .unit = longest_s >= 1 ? "s" : "ms", .holds = scale * longest_s};
  chart.x_label = "time per step (" + chart.unit + ")";
  for (const Row* row : rows) {
    if (row->is_floor() && !row->is_peer()) {
      chart.reference = scale * row->step_s;
      chart.reference_name =
          Join("floor ", row->variant(), ": ", Readable(chart.reference, 3), " ", chart.unit);
    }
    const Interval& cost = row->cost.total.interval;
    const double floor_s = row->step_s - row->cost.total.value;
    chart.bars.push_back({.name = NameOf(*row),
                          .style = styles.ClassesOf(*row),
                          .parts = PartsOf(*row, scale),
                          .total = scale * row->step_s,
                          .low = scale * (floor_s + cost.low),
                          .high = scale * (floor_s + cost.high),
                          .total_tip = CostTip(*row, scale, chart.unit)});
  }
  return chart;
}

}  // namespace

std::string PictureOf(const Figure& figure) {
  constexpr double kMargin = 16, kTitleHeight = 24, kKeyHeight = 20, kWidth = 2 * kChartWidth + 3 * kMargin;
  Svg key(kWidth, 0, ""), panels(kWidth, 0, "");
  double x = kMargin, y = kMargin;
  for (const KeyEntry& entry : figure.key) {
    const double width = kMarkWidth + 6 + TextWidth(entry.text) + kMargin;
    if (x > kMargin && x + width > kWidth) {
      x = kMargin;
      y += kKeyHeight;
    }
    key.Place(x, y, entry.mark);
    key.Text("", x + kMarkWidth + 6, y + 11, "start", entry.text);
    x += width;
  }
  y += kKeyHeight + kMargin;
  for (size_t i = 0; i < figure.panels.size(); i += 2) {
    double height = 0;
    for (size_t j = i; j < std::min(i + 2, figure.panels.size()); ++j) {
      const double left = kMargin + static_cast<double>(j - i) * (kChartWidth + kMargin);
      panels.Text("name", left, y + 12, "start", figure.panels[j].title);
      panels.Place(left, y + kTitleHeight, figure.panels[j].chart);
      height = std::max(height, figure.panels[j].chart.height());
    }
    y += kTitleHeight + height + kMargin;
  }
  Svg picture(kWidth, y, figure.title);
  picture.Rect("paper", 0, 0, kWidth, y);
  picture.Place(0, 0, key);
  picture.Place(0, 0, panels);
  return picture.Document("chart", kChartStyleSheet);
}

Figure CostFigure(const std::vector<Cell>& cells) {
  const StrategyStyles styles(cells);
  Figure figure{.id = "cost",
                .title = "What a step is made of",
                .caption =
                    "Each bar is a step; its parts add up to it. The dashed line is a step without "
                    "synchronisation: what a bar has beyond it is what synchronisation costs. The line below "
                    "a bar is the 95 % interval of that cost, simultaneous for the rows of a cell. Panels of "
                    "one cell have one scale."};
  std::set<std::string> drawn;
  for (const Cell& cell : cells) {
    if (!IsTraining(cell)) continue;
    std::set<std::string> backends;
    for (const Row& row : cell.rows) backends.insert(row.backend());
    if (backends.size() > 1) backends.erase(kNoBackend);
    for (const std::string& backend : backends) {
      std::vector<const Row*> rows;
      for (const Row& row : cell.rows) {
        if (row.backend() == backend || row.backend() == kNoBackend) rows.push_back(&row);
      }
      const std::string title = TitleOf(cell) + ", " + backend;
      if (std::ranges::none_of(rows, [](const Row* row) { return Decides(*row); })) {
        figure.undecided[WhyUndecided(cell)].push_back(title);
        continue;
      }
      std::vector<Answer> answers;
      for (const Row* row : rows) {
        if (row->baseline != Row::kNone) answers.push_back(AnswerOf(cell, *row));
      }
      const std::string counts = CountsOf(answers);
      const BarChart chart = CostChart(cell, rows, Join(title, counts.empty() ? "" : ": ", counts), styles);
      figure.panels.push_back({chart.title, DrawBars(chart)});
      for (const Bar& bar : chart.bars) {
        for (const BarPart& part : bar.parts) drawn.insert(part.style);
      }
    }
  }
  for (const auto& [style, text] : kPartKeys) {
    if (!drawn.contains(style)) continue;
    Svg& mark = figure.key.emplace_back(KeyEntry{Svg(kMarkWidth, kMarkHeight, ""), text}).mark;
    double x = 0;
    for (const char* const colour : {"c-1", "c-3", "c-6"}) {
      mark.Rect(Join("part ", style, " ", colour), x, 1, kMarkWidth / 3, kMarkHeight - 2);
      x += kMarkWidth / 3;
    }
  }
  return figure;
}

std::vector<Figure> FiguresOf(const Summary& summary) {
  return {CostFigure(summary.cells), LearningFigure(summary.learning)};
}

}  // namespace gradsync::tools
