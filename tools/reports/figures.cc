#include "tools/reports/figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/tables/answers.h"
#include "tools/tables/views.h"

namespace gradsync::tools {
namespace {

// "tiny, batch 2".
std::string Place(const Run& run, const std::string& place) {
  const bool is_phrase = place.empty() || place.starts_with("over ");
  return Join(run.name, run.name.empty() || place.empty() ? "" : is_phrase ? " " : ", ", place);
}

// The backends of rows that are compared with the floor.
std::set<std::string> BackendsOf(const Run& run) {
  std::set<std::string> backends;
  for (const Cell& cell : run.cells) {
    for (const Row& row : cell.rows) {
      if (!row.is_floor() && !std::isnan(row.cost.total.value)) backends.insert(row.backend());
    }
  }
  return backends;
}

// Rows over the backend whose cost is known, the cheapest first.
std::vector<const Row*> RowsWithCost(const Cell& cell, const std::string& backend) {
  std::vector<const Row*> rows;
  for (const Row& row : cell.rows) {
    if (!row.is_floor() && row.backend() == backend && row.cost.total.interval.is_known())
      rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, {}, [](const Row* row) { return row->cost.total.value; });
  return rows;
}

// What the baseline over a backend costs: null without one.
const Row* BaseOf(const Cell& cell, const std::string& backend) {
  for (size_t i = 0; i < cell.rows.size(); ++i) {
    if (cell.rows[i].baseline == i && cell.rows[i].backend() == backend) return &cell.rows[i];
  }
  return nullptr;
}

// "Faster than core: zero1 (over shm) and overlap (3 of 14 settings)".
std::string FasterText(const std::vector<Answer>& answers) {
  std::set<std::string> places, baselines;
  std::map<std::string, std::vector<std::string>> faster;  // places by row
  for (const Answer& answer : answers) {
    places.insert(answer.place);
    baselines.insert(answer.baseline);
    if (answer.verdict == Verdict::kFaster) faster[answer.row].push_back(answer.place);
  }
  const std::string base = baselines.size() == 1 ? *baselines.begin() : "the baseline";
  const std::string counts = CountsOf(answers);
  if (faster.empty())
    return Join("No row is shown faster than ", base, ": ", counts.empty() ? "no verdict" : counts);
  std::vector<std::string> parts;
  for (const auto& [row, where] : faster) {
    const std::string text =
        where.size() > 2 ? Join(where.size(), " of ", places.size(), " settings") : Brief(Listed(where));
    parts.push_back(Join(row, places.size() > 1 ? " (" + text + ")" : ""));
  }
  return Join("Faster than ", base, ": ", Listed(parts));
}

// The differences at one place, or those of one row in several places. Rows with one baseline stand together.
RowChart DifferencesChart(const std::string& title, std::vector<Answer> answers, bool by_row) {
  std::ranges::stable_sort(
      answers, {}, [](const Answer& answer) { return std::pair(answer.baseline, answer.difference.value); });
  RowChart chart{.title = title, .left_label = "← faster", .right_label = "slower →"};
  std::set<std::string> baselines;
  for (const Answer& answer : answers) {
    const bool is_first = baselines.insert(answer.baseline).second;
    const std::string& name = by_row ? answer.place : answer.row;
    const bool has_verdict = answer.verdict != Verdict::kNone;
    const std::string value = PercentText(answer.difference);
    chart.rows.push_back({.heading = is_first ? "against " + answer.baseline : "",
                          .name = name,
                          .value = value,
                          .style = has_verdict ? std::string(WordOf(answer.verdict)) : "none",
                          .at = Scaled(answer.difference, 100),
                          .tip = Join(name, " against ", answer.baseline, ": ", value,
                                      has_verdict ? "" : Join(", no verdict: ", answer.remark))});
  }
  if (baselines.size() == 1) chart.rows[0].heading.clear();
  chart.x_label = Join("% of the step of ", baselines.size() > 1 ? "the baseline" : *baselines.begin());
  return chart;
}

// "over gloo: 3 slower".
std::string Titled(const std::string& place, const std::string& answer) {
  return Join(place, place.empty() || answer.empty() ? "" : ": ", answer);
}

// On one scale.
void AddPanels(std::vector<RowChart> charts, Figure* figure) {
  Interval range;
  for (const RowChart& chart : charts) range = range.With(RangeOf(chart.rows));
  for (RowChart& chart : charts) {
    chart.range = range;
    figure->panels.push_back({chart.title, DrawRows(chart)});
  }
}

// All rows of a run have as many decimals as its longest cost needs.
ChartRow CostRow(const Row& row, double longest_s, double scale, const std::string& unit) {
  const Estimate cost = Scaled(row.cost.total, scale);
  const double longest = scale * longest_s;
  const int decimals = longest >= 100 ? 0 : longest >= 10 ? 1 : 2;
  const auto text = [&](double value) {
    return std::string(absl::StripPrefix(Signed(value, decimals), "+"));
  };
  ChartRow chart_row{.name = row.label(),
                     .value = Join(text(cost.value), " ", unit, " [", text(cost.interval.low), ", ",
                                   text(cost.interval.high), "]"),
                     .style = "total",
                     .at = cost};
  chart_row.tip =
      Join(row.variant(), ": step ", text(scale * row.step_s), " ", unit, ", cost ", chart_row.value);
  for (const auto& [name, part, explanation] : kCostParts) {
    const double value = scale * row.cost.*part;
    if (std::isnan(value)) continue;
    chart_row.parts.push_back({name, value, Join(row.label(), ", ", name, ": ", text(value), " ", unit)});
  }
  return chart_row;
}

double TokensOf(const Cell& cell) { return cell.any().facts().DoubleOr("tokens_per_step", kNaN); }

Estimate ShareOf(const Row& row) { return Scaled(row.cost.total, 100 / row.step_s); }

// A row of the run over the backend, at each number of tokens.
std::vector<ChartSeries> SharesOf(const Run& run, const std::string& backend) {
  std::vector<ChartSeries> all;
  for (const Cell& cell : run.cells) {
    for (const Row* row : RowsWithCost(cell, backend)) {
      auto series = std::ranges::find(all, row->label(), &ChartSeries::name);
      if (series == all.end()) series = all.insert(series, {.name = row->label()});
      const Estimate share = ShareOf(*row);
      series->points.push_back(
          {TokensOf(cell), share,
           Join(row->label(), ", ", cell.name, ": ", Readable(share.value, 3), " % [",
                Readable(share.interval.low, 3), ", ", Readable(share.interval.high, 3), "]")});
    }
  }
  for (ChartSeries& series : all) std::ranges::sort(series.points, {}, &ChartPoint::x);
  return all;
}

}  // namespace

std::string Signed(double value, int decimals) {
  const std::string digits = Fixed(std::abs(value), decimals);
  const bool is_zero = digits.find_first_not_of("0.") == std::string::npos;
  return Join(is_zero ? "" : value < 0 ? "−" : "+", digits);
}

std::string PercentText(const Estimate& part) {
  const Estimate percent = Scaled(part, 100);
  const int decimals = std::abs(percent.interval.high - percent.interval.low) < 20 ? 1 : 0;
  return Join(Signed(percent.value, decimals), " % [", Signed(percent.interval.low, decimals), ", ",
              Signed(percent.interval.high, decimals), "]");
}

KeyEntry VerdictKey(Verdict verdict, const char* style) {
  const std::string word(WordOf(verdict));
  const std::string within = Join(" within ", Fixed(100 * kEqualWithin, 0), " %");
  return BoxKey(Join(style, " ", word), word + (verdict == Verdict::kEqual ? within : ""));
}

std::string PictureOf(const Figure& figure) {
  constexpr double kMargin = 12, kTitleGap = 22, kKeyHeight = 20, kTitleSize = 14;
  double inner = kChartWidth;
  for (const Panel& panel : figure.panels) inner = std::max(inner, panel.chart.width());
  const double width = inner + 2 * kMargin, scale = inner > kChartWidth ? 1 : 1.4;
  const std::string title = absl::StrReplaceAll(figure.title, {{"`", ""}});
  Svg body(width, 0, "");
  double x = kMargin;
  double y = body.Paragraph("title", kMargin, kMargin + kTitleSize, inner, kTitleSize, title);
  for (const KeyEntry& entry : figure.key) {
    const double needed = kMarkWidth + 6 + TextWidth(entry.text) + kMargin;
    if (x > kMargin && x + needed > width) {
      x = kMargin;
      y += kKeyHeight;
    }
    body.Place(x, y, entry.mark);
    body.Text("", x + kMarkWidth + 6, y + 11, "start", entry.text);
    x += needed;
  }
  y += kKeyHeight;
  for (const Panel& panel : figure.panels) {
    if (!panel.title.empty())
      y = body.Paragraph("heading", kMargin, y + kTitleGap, inner, kFontSize, panel.title) - 8;
    body.Place(kMargin, y, panel.chart);
    y += panel.chart.height() + kMargin;
  }
  Svg picture(width, y, title);
  picture.Rect("paper", 0, 0, width, y);
  picture.Place(0, 0, body);
  return picture.Document("chart", kChartStyleSheet, scale);
}

Figure DifferencesFigure(const std::vector<Cell>& cells) {
  Figure figure{.id = "differences",
                .table = "ddp",
                .caption =
                    "How much longer a row's step is than the baseline's in the same rounds. The lines are "
                    "95 % intervals, which hold for all differences of a cell at once: one that does not "
                    "reach 0 shows a difference."};
  std::vector<Answer> all;
  for (const Run& run : RunsOf(cells)) {
    std::vector<Answer> answers = AnswersOf(run.cells);
    std::erase_if(answers, [](const Answer& answer) { return !answer.difference.interval.is_known(); });
    const bool by_row = HaveFewerRowsThanPlaces(answers);
    std::map<std::string, std::vector<Answer>> groups;  // by what their title begins with
    for (const Answer& answer : answers) groups[by_row ? answer.row : answer.place].push_back(answer);
    std::vector<RowChart> charts;
    for (const auto& [first, members] : groups)
      charts.push_back(DifferencesChart(Titled(Place(run, first), CountsOf(members)), members, by_row));
    AddPanels(std::move(charts), &figure);
    for (Answer& answer : answers) answer.place = Place(run, answer.place);
    Append(std::move(answers), &all);
  }
  figure.title = FasterText(all);
  for (const Verdict verdict : kVerdicts) {
    if (std::ranges::count(all, verdict, &Answer::verdict) > 0)
      figure.key.push_back(VerdictKey(verdict, "swatch"));
  }
  return figure;
}

Figure CostFigure(const std::vector<Cell>& cells) {
  Figure figure{
      .id = "cost",
      .table = "ddp",
      .title = CostSentence(TrainingOf(cells)),
      .caption =
          "What a step takes beyond one that does not synchronise, which is cut away: its parts add "
          "up to the cost, the diamond, with its 95 % interval, simultaneous for the costs of a cell. "
          "Left of 0 time is saved."};
  std::map<std::string, Interval> shares;  // of the baselines, by backend
  for (const Run& run : RunsOf(cells)) {
    double longest_s = 0;
    for (const Cell& cell : run.cells) {
      for (const Row& row : cell.rows) longest_s = std::fmax(longest_s, row.cost.total.interval.high);
    }
    const double scale = longest_s >= 1 ? 1 : 1e3;
    const std::string unit = longest_s >= 1 ? "s" : "ms";
    const bool is_one = run.cells.size() == 1;
    std::vector<RowChart> charts;
    for (const std::string& backend : BackendsOf(run)) {
      RowChart chart{.x_label = Join(unit, " a step, beyond a step without synchronisation")};
      for (const Cell& cell : run.cells) {
        std::string heading = is_one ? "" : cell.name;
        for (const Row* row : RowsWithCost(cell, backend)) {
          chart.rows.push_back(CostRow(*row, longest_s, scale, unit));
          std::swap(chart.rows.back().heading, heading);
        }
        const Row* const base = BaseOf(cell, backend);
        if (base != nullptr && base->told_cost.interval.is_known())
          shares[backend] = shares[backend].With(Scaled(base->told_cost, 1 / base->step_s).interval);
      }
      const Row* const base = BaseOf(run.cells[0], backend);
      const std::string cost = is_one && base != nullptr ? CostText(*base) : "";
      chart.title = Titled(Place(run, "over " + backend), cost);
      if (!chart.rows.empty()) charts.push_back(std::move(chart));
    }
    AddPanels(std::move(charts), &figure);
  }
  if (figure.title.empty() && !shares.empty()) {
    std::vector<std::string> parts;
    for (const auto& [backend, share] : shares) parts.push_back(Join(PercentRange(share), " over ", backend));
    figure.title = Join("Synchronisation takes of the baseline's step ", absl::StrJoin(parts, ", "));
  }
  for (const auto& [name, part, text] : kCostParts) figure.key.push_back(BoxKey(Join("part ", name), text));
  return figure;
}

Figure TokensFigure(const std::vector<Cell>& cells) {
  Figure figure{
      .id = "tokens",
      .table = "ddp",
      .caption =
          "What synchronisation costs, as a share of the row's own step, with its 95 % interval, over "
          "the tokens that all ranks together train on in a step."};
  std::vector<LineChart> charts;
  std::vector<std::string> answers;
  for (const Run& run : RunsOf(cells)) {
    std::set<double> tokens;
    for (const Cell& cell : run.cells) tokens.insert(TokensOf(cell));
    if (tokens.size() < 2 || std::isnan(*tokens.begin())) continue;
    for (const std::string& backend : BackendsOf(run)) {
      LineChart chart{.title = Place(run, "over " + backend),
                      .x_label = "tokens per step, all ranks",
                      .y_label = "% of the step",
                      .log_x = true,
                      .reference = 0,
                      .series = SharesOf(run, backend)};
      const Row* const base = BaseOf(run.cells[0], backend);
      const auto series =
          std::ranges::find(chart.series, base == nullptr ? "" : base->label(), &ChartSeries::name);
      if (series != chart.series.end()) {
        const auto text = [](const ChartPoint& point) {
          return Join(PercentRange(Scaled(point.y, 0.01).interval), " at ", point.x, " tokens");
        };
        answers.push_back(Join(series->name, " costs ", text(series->points.front()), " and ",
                               text(series->points.back()), " over ", backend));
      }
      if (!chart.series.empty()) charts.push_back(std::move(chart));
    }
  }
  figure.title = answers.empty() ? "What synchronisation costs at different numbers of tokens"
                                 : absl::StrJoin(answers, "; ");
  for (const LineChart& chart : charts) figure.panels.push_back({chart.title, DrawLines(chart)});
  figure.key = SeriesKey(charts);
  return figure;
}

std::vector<Figure> FiguresOf(const Summary& summary) {
  std::vector<Figure> figures = {DifferencesFigure(summary.cells), CostFigure(summary.cells),
                                 TokensFigure(summary.cells),      LinksFigure(summary.cells),
                                 BandwidthFigure(summary.cells),   LearningFigure(summary.learning)};
  std::erase_if(figures, [](const Figure& figure) { return figure.panels.empty(); });
  for (Figure& figure : figures) {
    const auto table = std::ranges::find(summary.report.tables, figure.table, &Table::name);
    if (figure.title.empty() && table != summary.report.tables.end())
      figure.title = table->findings().empty() ? table->title() : table->findings().front();
  }
  return figures;
}

}  // namespace gradsync::tools
