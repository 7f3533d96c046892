#include "tools/reports/figures.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/tables/answers.h"
#include "tools/tables/views.h"

namespace gradsync::tools {
namespace {

// The cells about training, by run. What a figure compares with the eye belongs to one run.
std::vector<std::vector<Cell>> RunsOf(const std::vector<Cell>& cells) {
  std::vector<std::vector<Cell>> runs;
  const auto id = [](const Cell& cell) { return cell.any().measured->record.run_id; };
  for (const Cell& cell : TrainingOf(cells)) {
    if (runs.empty() || id(runs.back().front()) != id(cell)) runs.emplace_back();
    runs.back().push_back(cell);
  }
  return runs;
}

// "tiny over gloo".
std::string OverText(const std::string& place, const std::string& backend) {
  return Join(place, place.empty() ? "Over " : " over ", backend);
}

void AddUndecided(const std::vector<Cell>& run, Figure* figure) {
  for (const Cell& cell : run) {
    if (cell.void_reason.empty()) continue;
    const std::string model = cell.any().config().StringOr("model", "");
    figure->undecided[cell.void_reason].push_back(cell.name.empty() ? model : cell.name);
  }
}

// The backends of rows that are compared with the floor.
std::set<std::string> BackendsOf(const std::vector<Cell>& run) {
  std::set<std::string> backends;
  for (const Cell& cell : run) {
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

// "Faster than core: core:rows=1 and core_update over gloo; zero1 over shm; overlap in 3 of 14 settings."
std::string FasterText(const std::vector<Answer>& answers) {
  std::set<std::string> places, baselines;
  std::vector<std::pair<std::string, std::vector<std::string>>> faster;  // places by row
  for (const Answer& answer : answers) {
    places.insert(answer.place);
    baselines.insert(answer.baseline);
    if (answer.verdict != Verdict::kFaster) continue;
    auto found = std::ranges::find(faster, answer.row, &decltype(faster)::value_type::first);
    if (found == faster.end()) found = faster.insert(found, {answer.row, {}});
    found->second.push_back(answer.place);
  }
  const std::string base = baselines.size() == 1 ? *baselines.begin() : "its baseline";
  if (faster.empty()) return Join("No row is shown faster than ", base, ": ", CountsOf(answers));
  std::vector<std::pair<std::string, std::vector<std::string>>> by_where;  // rows
  for (const auto& [row, where] : faster) {
    const std::string text = where.size() == places.size() && where.size() > 1 ? "in every setting"
                             : where.size() > 2
                                 ? Join("in ", where.size(), " of ", places.size(), " settings")
                                 : Listed(where);
    auto found = std::ranges::find(by_where, text, &decltype(by_where)::value_type::first);
    if (found == by_where.end()) found = by_where.insert(found, {text, {}});
    found->second.push_back(row);
  }
  std::vector<std::string> parts;
  for (const auto& [where, rows] : by_where) {
    const bool is_phrase = where.empty() || where.starts_with("in ") || where.starts_with("over ");
    parts.push_back(Join(Listed(rows), where.empty() ? "" : is_phrase ? " " : " at ", where));
  }
  return Join("Faster than ", base, ": ", absl::StrJoin(parts, "; "));
}

// Of one place, or of one row in several.
RowChart DifferencesChart(const std::string& title, std::vector<Answer> answers, bool by_row) {
  std::ranges::stable_sort(answers, {}, &Answer::value);
  std::set<std::string> baselines;
  for (const Answer& answer : answers) baselines.insert(answer.baseline);
  RowChart chart{.title = title};
  for (const Answer& answer : answers) {
    const std::string name =
        Join(by_row ? answer.place : answer.row, baselines.size() > 1 ? " against " + answer.baseline : "");
    const Estimate percent = Scaled({answer.value, answer.interval}, 100);
    const bool has_verdict = answer.verdict != Verdict::kNone;
    chart.rows.push_back({.name = name,
                          .value = Join(PercentText({answer.value, answer.interval}),
                                        has_verdict ? "" : Join(" (", answer.remark, ")")),
                          .style = has_verdict ? std::string(WordOf(answer.verdict)) : "none",
                          .at = percent.value,
                          .low = percent.interval.low,
                          .high = percent.interval.high,
                          .tip = Join(name, ": ", PercentText({answer.value, answer.interval}))});
  }
  chart.x_label = Join("% of the step of ", baselines.size() > 1 ? "the baseline" : *baselines.begin());
  chart.left_label = "← faster";
  chart.right_label = "slower →";
  return chart;
}

// In the order in which they are drawn.
constexpr struct {
  const char* name;
  const char* text;
} kParts[] = {{"exposed", "exposed: waits after the last rank has computed"},
              {"tax", "tax: computes longer beside communication"},
              {"own", "own: copies and other work of the strategy"},
              {"rest", "rest: the optimizer, mostly"}};

ChartRow CostRow(const Row& row, double scale, const std::string& unit) {
  const Estimate cost = Scaled(row.cost.total, scale);
  const auto text = [&](double value) { return Readable(value, 3); };
  ChartRow chart_row{.name = row.label(),
                     .value = Join(text(cost.value), " ", unit, " [", text(cost.interval.low), ", ",
                                   text(cost.interval.high), "]"),
                     .style = "total",
                     .at = cost.value,
                     .low = cost.interval.low,
                     .high = cost.interval.high};
  chart_row.tip =
      Join(row.variant(), ": step ", text(scale * row.step_s), " ", unit, ", cost ", chart_row.value);
  for (const auto& [name, explanation] : kParts) {
    const auto part = std::ranges::find(kCostParts, std::string_view(name), &CostPart::name);
    const double value = scale * row.cost.*part->part;
    if (std::isnan(value)) continue;
    chart_row.parts.push_back({name, value, Join(row.label(), ", ", name, ": ", text(value), " ", unit)});
  }
  return chart_row;
}

double TokensOf(const Cell& cell) { return cell.any().facts().DoubleOr("tokens_per_step", kNaN); }

Estimate ShareOf(const Row& row) { return Scaled(row.cost.total, 100 / row.step_s); }

// A row of the run over the backend, at each number of tokens.
std::vector<ChartSeries> SharesOf(const std::vector<Cell>& run, const std::string& backend) {
  std::vector<ChartSeries> all;
  for (const Cell& cell : run) {
    for (const Row* row : RowsWithCost(cell, backend)) {
      auto series = std::ranges::find(all, row->label(), &ChartSeries::name);
      if (series == all.end()) series = all.insert(series, {.name = row->label()});
      const Estimate share = ShareOf(*row);
      series->points.push_back(
          {TokensOf(cell), share.value, share.interval.low, share.interval.high,
           Join(row->label(), ", ", cell.name, ": ", Readable(share.value, 3), " % [",
                Readable(share.interval.low, 3), ", ", Readable(share.interval.high, 3), "]")});
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    std::ranges::sort(all[i].points, {}, &ChartPoint::x);
    all[i].style = Join("c-", 1 + i % kNumColours);
    all[i].marker = i;
  }
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

KeyEntry VerdictKey(Verdict verdict, const char* classes) {
  KeyEntry entry{Svg(kMarkWidth, kMarkHeight, ""), std::string(WordOf(verdict))};
  if (verdict == Verdict::kEqual) entry.text += Join(" within ", Fixed(100 * kEqualWithin, 0), " %");
  entry.mark.Rect(Join(classes, " ", WordOf(verdict)), 1, 2, kMarkWidth - 2, kMarkHeight - 4);
  return entry;
}

std::vector<KeyEntry> SeriesKey(const std::vector<LineChart>& charts) {
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

std::string PictureOf(const Figure& figure) {
  constexpr double kMargin = 12, kTitleGap = 22, kKeyHeight = 20, kTitleSize = 14;
  constexpr double kWidth = kChartWidth + 2 * kMargin, kScale = 1.4;
  const std::string title = absl::StrReplaceAll(figure.title, {{"`", ""}});
  Svg body(kWidth, 0, "");
  double x = kMargin;
  double y = body.Paragraph("title", kMargin, kMargin + kTitleSize, kChartWidth, kTitleSize, title);
  for (const KeyEntry& entry : figure.key) {
    const double width = kMarkWidth + 6 + TextWidth(entry.text) + kMargin;
    if (x > kMargin && x + width > kWidth) {
      x = kMargin;
      y += kKeyHeight;
    }
    body.Place(x, y, entry.mark);
    body.Text("", x + kMarkWidth + 6, y + 11, "start", entry.text);
    x += width;
  }
  y += kKeyHeight;
  for (const Panel& panel : figure.panels) {
    if (!panel.title.empty())
      y = body.Paragraph("heading", kMargin, y + kTitleGap, kChartWidth, kFontSize, panel.title) - 8;
    body.Place(kMargin, y, panel.chart);
    y += panel.chart.height() + kMargin;
  }
  Svg picture(kWidth, y, title);
  picture.Rect("paper", 0, 0, kWidth, y);
  picture.Place(0, 0, body);
  return picture.Document("chart", kChartStyleSheet, kScale);
}

Figure DifferencesFigure(const std::vector<Cell>& cells) {
  Figure figure{.id = "differences",
                .table = "ddp",
                .caption =
                    "How much longer a row's step is than the baseline's in the same rounds. The lines are "
                    "95 % intervals, which hold for all differences of a cell at once: one that does not "
                    "reach 0 shows a difference."};
  std::vector<Answer> all;
  for (const std::vector<Cell>& run : RunsOf(cells)) {
    AddUndecided(run, &figure);
    std::vector<Answer> answers = AnswersOf(run);
    std::erase_if(answers, [](const Answer& answer) { return !answer.interval.is_known(); });
    std::set<std::string> places, rows;
    for (const Answer& answer : answers) places.insert(answer.place), rows.insert(answer.row);
    const bool by_row = rows.size() < places.size();
    std::vector<std::pair<std::string, std::vector<Answer>>> groups;
    for (const Answer& answer : answers) {
      const std::string title = by_row ? answer.row : answer.place;
      if (groups.empty() || groups.back().first != title) {
        auto found = std::ranges::find(groups, title, &decltype(groups)::value_type::first);
        if (found == groups.end()) groups.emplace_back(title, std::vector<Answer>());
      }
      std::ranges::find(groups, title, &decltype(groups)::value_type::first)->second.push_back(answer);
    }
    std::vector<RowChart> charts;
    double least = 0, most = 0;
    for (const auto& [title, members] : groups) {
      charts.push_back(
          DifferencesChart(Join(title, title.empty() ? "" : ": ", CountsOf(members)), members, by_row));
      const auto range = RangeOf(charts.back().rows);
      least = std::min(least, range.first);
      most = std::max(most, range.second);
    }
    for (RowChart& chart : charts) {
      chart.least = least;
      chart.most = most;
      figure.panels.push_back({chart.title, DrawRows(chart)});
    }
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
      .title = "What synchronisation adds to a step",
      .caption =
          "What a step takes beyond one that does not synchronise, which is cut away: its parts add "
          "up to the cost, the diamond, with its 95 % interval, simultaneous for the costs of a cell. "
          "Left of 0 time is saved."};
  if (const std::string answer = CostSentence(TrainingOf(cells)); !answer.empty()) figure.title = answer;
  for (const std::vector<Cell>& run : RunsOf(cells)) {
    AddUndecided(run, &figure);
    double longest_s = 0, least = 0, most = 0;
    const std::set<std::string> backends = BackendsOf(run);
    for (const Cell& cell : run) {
      for (const Row& row : cell.rows) longest_s = std::fmax(longest_s, row.cost.total.interval.high);
    }
    const double scale = longest_s >= 1 ? 1 : 1e3;
    const std::string unit = longest_s >= 1 ? "s" : "ms";
    std::vector<RowChart> charts;
    for (const std::string& backend : backends) {
      RowChart chart{.x_label = Join(unit, " a step, beyond a step without synchronisation")};
      const Row* base = nullptr;
      for (const Cell& cell : run) {
        bool is_first = true;
        for (const Row* row : RowsWithCost(cell, backend)) {
          chart.rows.push_back(CostRow(*row, scale, unit));
          if (is_first && run.size() > 1) chart.rows.back().heading = cell.name;
          is_first = false;
        }
        base = BaseOf(cell, backend);
      }
      if (chart.rows.empty()) continue;
      const std::string cost = run.size() > 1 || base == nullptr ? "" : CostText(*base);
      chart.title =
          Join(OverText(run.size() > 1 ? "" : run[0].name, backend), cost.empty() ? "" : ": ", cost);
      const auto range = RangeOf(chart.rows);
      least = std::min(least, range.first);
      most = std::max(most, range.second);
      charts.push_back(std::move(chart));
    }
    for (RowChart& chart : charts) {
      chart.least = least;
      chart.most = most;
      figure.panels.push_back({chart.title, DrawRows(chart)});
    }
  }
  for (const auto& [name, text] : kParts) {
    KeyEntry& entry = figure.key.emplace_back(KeyEntry{Svg(kMarkWidth, kMarkHeight, ""), text});
    entry.mark.Rect(Join("part ", name), 1, 2, kMarkWidth - 2, kMarkHeight - 4);
  }
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
  for (const std::vector<Cell>& run : RunsOf(cells)) {
    std::set<double> tokens;
    for (const Cell& cell : run) tokens.insert(TokensOf(cell));
    if (tokens.size() < 2 || std::isnan(*tokens.begin())) continue;
    for (const std::string& backend : BackendsOf(run)) {
      LineChart chart{.title = OverText("", backend),
                      .x_label = "tokens per step, all ranks",
                      .y_label = "% of the step",
                      .log_x = true,
                      .reference = 0,
                      .series = SharesOf(run, backend)};
      const auto cost_at = [&](double wanted) -> std::string {
        for (const Cell& cell : run) {
          const Row* const base = BaseOf(cell, backend);
          if (TokensOf(cell) != wanted || base == nullptr || !base->cost.total.interval.is_known()) continue;
          return Join(PercentRange(Scaled(ShareOf(*base), 0.01).interval), " at ", wanted, " tokens");
        }
        return "";
      };
      const std::string few = cost_at(*tokens.begin()), many = cost_at(*tokens.rbegin());
      const Row* const base = BaseOf(run[0], backend);
      if (base != nullptr && !few.empty() && !many.empty())
        answers.push_back(Join("over ", backend, " ", base->label(), " costs ", few, " and ", many));
      if (!chart.series.empty()) charts.push_back(std::move(chart));
    }
  }
  figure.title = answers.empty() ? "What synchronisation costs at different numbers of tokens"
                                 : absl::StrJoin(answers, "; ");
  figure.title[0] = figure.title[0] == 'o' ? 'O' : figure.title[0];
  for (const LineChart& chart : charts) figure.panels.push_back({chart.title, DrawLines(chart)});
  figure.key = SeriesKey(charts);
  return figure;
}

std::vector<Figure> FiguresOf(const Summary& summary) {
  std::vector<Figure> figures = {DifferencesFigure(summary.cells), CostFigure(summary.cells),
                                 TokensFigure(summary.cells),      LinksFigure(summary.cells),
                                 BandwidthFigure(summary.cells),   LearningFigure(summary.learning)};
  for (Figure& figure : figures) {
    const auto table = std::ranges::find(summary.report.tables, figure.table, &Table::name);
    if (table == summary.report.tables.end()) continue;
    if (figure.title.empty())
      figure.title = table->findings().empty() ? table->title() : table->findings().front();
  }
  return figures;
}

}  // namespace gradsync::tools
