#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "bench/records/strategy_name.h"
#include "model/error.h"
#include "tools/charts/chart.h"
#include "tools/charts/svg.h"
#include "tools/records/measurement.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"

namespace gradsync::tools {
namespace {

// From this ratio between the largest and the smallest on, bandwidths are drawn on a logarithmic axis.
constexpr double kLogFrom = 30;

struct LinePanel {
  std::string facts;
  LineChart chart;
};

// The chart of the panel with these facts, and with the title and the labels of `blank`, from which it is
// made if there is none.
LineChart& ChartLike(const LineChart& blank, const std::string& facts, std::vector<LinePanel>* panels) {
  for (auto& [other_facts, chart] : *panels) {
    if (other_facts == facts && chart.title == blank.title && chart.y_label == blank.y_label) return chart;
  }
  return panels->emplace_back(LinePanel{facts, blank}).chart;
}

// The points of the series `name`, which is made if it is not there.
std::vector<ChartPoint>& PointsOf(const std::string& name, const StrategyStyle& style, LineChart* chart) {
  const auto found = std::ranges::find(chart->series, name, &ChartSeries::name);
  if (found != chart->series.end()) return found->points;
  return chart->series.emplace_back(ChartSeries{name, style.classes, style.marker, {}}).points;
}

void AddPanels(std::vector<LinePanel> panels, Figure* figure) {
  for (auto& [facts, chart] : panels) {
    for (ChartSeries& series : chart.series) std::ranges::stable_sort(series.points, {}, &ChartPoint::x);
    AddPanel(chart.title, facts, DrawLines(chart), figure);
  }
}

bool HasALine(const LinePanel& panel) {
  return std::ranges::any_of(panel.chart.series,
                             [](const ChartSeries& series) { return series.points.size() > 1; });
}

// The name of each row's series: its backend, and of its other facts those that tell it from another.
std::vector<std::string> SeriesNames(const TableReader& table) {
  constexpr Fact kOtherFacts[] = {{"collective"}, {"world_size", "", " ranks"}, {"device"}, {"dtype"}, {"op"},
                                  {"run"}};
  std::map<std::string, std::vector<size_t>> rows_of;  // by all facts
  for (size_t row = 0; row < table.num_rows(); ++row) {
    rows_of[table.Text(row, "backend") + ", " + FactsOf(table, row, kOtherFacts)].push_back(row);
  }
  std::vector<std::string> names(table.num_rows());
  for (const auto& [facts, rows] : rows_of) {
    std::string name = table.Text(rows[0], "backend");
    std::vector<size_t> alike;
    for (const auto& [other_facts, others] : rows_of) {
      if (table.Text(others[0], "backend") == name) alike.push_back(others[0]);
    }
    for (const Fact& fact : kOtherFacts) {
      const std::string value = FactsOf(table, rows[0], {&fact, 1});
      const auto differs = [&](size_t other) { return FactsOf(table, other, {&fact, 1}) != value; };
      if (std::erase_if(alike, differs) > 0) name += ", " + value;
    }
    for (const size_t row : rows) names[row] = name;
  }
  return names;
}

// Names of series beside their markers, for a chart where they have not the room.
std::string KeyOf(const LineChart& chart) {
  std::vector<std::string> entries;
  for (const ChartSeries& series : chart.series) {
    Svg line(0, 0, "");
    line.Line("line " + series.style, 1, 7, 17, 7);
    line.Marker("marker " + series.style, series.marker, 9, 7, "");
    entries.push_back(KeyEntry(line.body(), EscapeXml(series.name)));
  }
  return KeyList(entries);
}

}  // namespace

std::optional<Figure> BandwidthFigure(const Table& table, const StrategyStyles&) {
  if (table.num_rows() == 0) return std::nullopt;
  const TableReader reader(table);
  LineChart chart{.title = "All-reduce",
                  .x_label = "message size (MiB)",
                  .y_label = "bus bandwidth (GB/s)",
                  .log_x = true,
                  .from_zero = true};
  Figure figure{
      .id = "bandwidth",
      .title = "All-reduce bandwidth over message size",
      .caption =
          "Bus bandwidth is what each rank’s link carries: 2 (n − 1) / n times the message over the "
          "mean time of the slowest rank. The band lies between the same quantity for the median and "
          "for the 95th percentile of that time.",
      .table = table.name()};
  const std::vector<std::string> names = SeriesNames(reader);
  double least = HUGE_VAL, most = 0;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const double mib = reader.Number(row, "data_size (MB)"), bandwidth = reader.Number(row, "busbw (GB/s)"),
                 time_s = reader.Number(row, "time_max (s)");
    const size_t number = chart.series.size();
    PointsOf(names[row], {Join("b-", std::min(number, size_t{3})), number}, &chart)
        .push_back({.x = mib,
                    .y = bandwidth,
                    // The same bytes in the median's, and in the 95th percentile's time.
                    .low = bandwidth * time_s / reader.Number(row, "p95 (s)"),
                    .high = bandwidth * time_s / reader.Number(row, "p50 (s)"),
                    .tip = Join(names[row], ", ", ReadableBytes(mib * 1048576), ": ", Readable(bandwidth, 4),
                                " GB/s", AddFlags(reader, row, &figure))});
    if (!(bandwidth > 0)) continue;
    least = std::min(least, bandwidth);
    most = std::max(most, bandwidth);
  }
  chart.log_y = most > kLogFrom * least;
  chart.has_names = std::ranges::all_of(chart.series, [](const ChartSeries& series) {
    return NumCharacters(series.name) <= kLongestSeriesName;
  });
  if (!chart.has_names) figure.key = KeyOf(chart);
  AddPanels({{.facts = "", .chart = std::move(chart)}}, &figure);
  return figure;
}

std::optional<Figure> GridFigure(const Table& table, const StrategyStyles& styles) {
  const TableReader reader(table);
  const bool over_sequence = reader.Values("seq_len").size() > 1;
  const char* const x_column = over_sequence ? "seq_len" : "local_bs";
  const char* const panel_column = over_sequence ? "local_bs" : "seq_len";
  const auto percent = [&](size_t row) {
    return 100 * reader.Number(row, "ratio grad all reduce to train time");
  };
  const auto grid_of = [&](size_t row) {
    return reader.Text(row, "model") + FactsOf(reader, row, kRunFacts);
  };
  Figure figure{.id = "grid",
                .title = "The part of a step that waits for synchronisation",
                .caption =
                    "time_per_sync over time_per_step. Panels of one model share the vertical axis. "
                    "<code>none</code>, which does not synchronise, is left out.",
                .table = table.name()};
  std::vector<size_t> rows;
  std::map<std::string, double> most_of_grid;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    if (bench::IsFloor(reader.Text(row, "strategy"))) continue;
    rows.push_back(row);
    double& most = most_of_grid[grid_of(row)];
    most = std::fmax(most, percent(row));
  }
  std::vector<LinePanel> panels;
  for (const size_t row : rows) {
    const std::string strategy = reader.Text(row, "strategy");
    LineChart& chart =
        ChartLike({.title = Join(reader.Text(row, "model"), over_sequence ? ", batch " : ", sequence ",
                                 reader.Any(row, panel_column)),
                   .x_label = over_sequence ? "sequence length" : "batch size",
                   .y_label = "exposed synchronisation (% of the step)",
                   .log_x = true,
                   .from_zero = true,
                   .y_holds = most_of_grid[grid_of(row)]},
                  FactsOf(reader, row, kRunFacts), &panels);
    const double x = reader.Number(row, x_column);
    if (std::ranges::count(chart.x_ticks, x) == 0) chart.x_ticks.push_back(x);
    PointsOf(strategy, styles.Of(strategy), &chart)
        .push_back({.x = x,
                    .y = percent(row),
                    .tip = Join(strategy, ", batch ", reader.Any(row, "local_bs"), ", sequence ",
                                reader.Any(row, "seq_len"), ": ", Readable(percent(row), 3), " %",
                                AddFlags(reader, row, &figure))});
  }
  // A cell alone is no curve, unless there is nothing else.
  if (std::ranges::any_of(panels, HasALine)) std::erase_if(panels, std::not_fn(HasALine));
  if (panels.empty()) return std::nullopt;
  AddPanels(std::move(panels), &figure);
  return figure;
}

std::optional<Figure> SweepFigure(const Table& table, const StrategyStyles& styles) {
  const TableReader reader(table);
  Figure figure{.id = "sweep",
                .title = "Strategies over bucket sizes",
                .caption =
                    "Mean time of each phase against the baseline, the dashed line at 0. The band is the "
                    "95 % bootstrap interval of the difference; where it holds 0, these data show none.",
                .table = table.name()};
  std::vector<LinePanel> panels;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const std::string strategy = reader.Text(row, "strategy"), baseline = reader.Text(row, "baseline");
    const std::string flags = AddFlags(reader, row, &figure);
    LineChart& chart = ChartLike({.title = reader.Text(row, "model") + ", " + reader.Text(row, "phase"),
                                  .x_label = "buffer size (Mi elements)",
                                  .y_label = "difference to " + baseline + " (%)",
                                  .reference = 0,
                                  .reference_name = "baseline " + baseline},
                                 FactsOf(reader, row, kFacts), &panels);
    if (strategy == baseline) continue;  // is the line at 0
    const double x = reader.Number(row, "buffer_elements (Mi)"), delta = reader.Number(row, "delta (%)"),
                 low = reader.Number(row, "ci95_low (%)"), high = reader.Number(row, "ci95_high (%)");
    PointsOf(strategy, styles.Of(strategy), &chart)
        .push_back({.x = x,
                    .y = delta,
                    .low = low,
                    .high = high,
                    .tip = Join(strategy, ", ", x, " Mi elements: ", Readable(delta, 3), " %, 95 % interval ",
                                Readable(low, 3), " to ", Readable(high, 3), " %, mean ",
                                Readable(reader.Number(row, "mean (ms)"), 4), " ms", flags)});
  }
  if (panels.empty()) return std::nullopt;
  AddPanels(std::move(panels), &figure);
  figure.in_pairs = figure.panels.size() % 2 == 0;
  return figure;
}

}  // namespace gradsync::tools
