#include <algorithm>
#include <cmath>

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

// The series `name` of the chart, made if it is not there.
ChartSeries& SeriesNamed(const std::string& name, LineChart* chart) {
  const auto found = std::find_if(chart->series.begin(), chart->series.end(),
                                  [&](const ChartSeries& series) { return series.name == name; });
  if (found != chart->series.end()) return *found;
  ChartSeries& series = chart->series.emplace_back();
  series.name = name;
  return series;
}

void SortPoints(LineChart* chart) {
  for (ChartSeries& series : chart->series) {
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  }
}

constexpr Fact kAllReduceFacts[] = {
    {.column = "world_size", .behind = " ranks"}, {"device"}, {"dtype"}, {"op"}, {"run"}};

// What belongs together: all facts of a row.
std::string KeyOf(const TableReader& table, size_t row) {
  return Join(table.Text(row, "backend"), ", ", FactsOf(table, row, kAllReduceFacts));
}

// The name of each series, by key: its backend, and the facts that tell it from the others.
std::map<std::string, std::string> SeriesNames(const TableReader& table) {
  std::map<std::string, size_t> first_rows;
  for (size_t row = 0; row < table.num_rows(); ++row) first_rows.emplace(KeyOf(table, row), row);
  std::map<std::string, std::string> names;
  for (const auto& [key, row] : first_rows) {
    std::string name = table.Text(row, "backend");
    std::vector<size_t> alike;
    for (const auto& [other_key, other] : first_rows) {
      if (table.Text(other, "backend") == name) alike.push_back(other);
    }
    for (const Fact& fact : kAllReduceFacts) {
      const std::string value = FactsOf(table, row, {&fact, 1});
      const auto differs = [&](size_t other) { return FactsOf(table, other, {&fact, 1}) != value; };
      if (std::erase_if(alike, differs) > 0) name += ", " + value;
    }
    names.emplace(key, std::move(name));
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

// What tells the grids of a table apart.
constexpr Fact kGridFacts[] = {
    {"backend"}, {"device"}, {"dtype"}, {.column = "world_size", .behind = " ranks"}, {"run"}};

struct GridPanel {
  std::string model;
  std::string facts;
  double fixed = 0;  // the batch size, or the sequence length, of all its points
  LineChart chart;
};

struct SweepPanel {
  std::string title;  // model and phase
  std::string facts;
  std::set<std::string> baselines;
  LineChart chart;
};

// What tells the sweeps of a table apart.
constexpr Fact kSweepFacts[] = {{.column = "batch_size", .before = "batch "},
                                {.column = "image_size", .before = "images of "},
                                {.column = "seq_len", .before = "sequence "},
                                {.column = "units", .before = "units "},
                                {"backend"},
                                {"device"},
                                {"dtype"},
                                {.column = "world_size", .behind = " ranks"},
                                {"run"}};

SweepPanel& PanelFor(const std::string& title, const std::string& facts, std::vector<SweepPanel>* panels) {
  for (SweepPanel& panel : *panels) {
    if (panel.title == title && panel.facts == facts) return panel;
  }
  panels->push_back({.title = title, .facts = facts, .baselines = {}, .chart = {}});
  return panels->back();
}

size_t CountValues(const TableReader& table, const char* column) {
  std::set<double> values;
  for (size_t row = 0; row < table.num_rows(); ++row) values.insert(table.Number(row, column));
  return values.size();
}

GridPanel& PanelFor(const std::string& model, const std::string& facts, double fixed,
                    std::vector<GridPanel>* panels) {
  for (GridPanel& panel : *panels) {
    if (panel.model == model && panel.facts == facts && panel.fixed == fixed) return panel;
  }
  panels->push_back({.model = model, .facts = facts, .fixed = fixed, .chart = {}});
  return panels->back();
}

bool HasALine(const LineChart& chart) {
  return std::ranges::any_of(chart.series,
                             [](const ChartSeries& series) { return series.points.size() > 1; });
}

}  // namespace

std::optional<Figure> BandwidthFigure(const Table& table) {
  if (table.num_rows() == 0) return std::nullopt;
  const TableReader reader(table);
  LineChart chart{.title = "All-reduce",
                  .x_label = "message size (MiB)",
                  .y_label = "bus bandwidth (GB/s)",
                  .log_x = true,
                  .from_zero = true};
  Figure figure{.id = "bandwidth", .title = "All-reduce bandwidth over message size", .table = table.name()};
  const std::map<std::string, std::string> names = SeriesNames(reader);
  double least = HUGE_VAL, most = 0;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const double bandwidth = reader.Number(row, "busbw (GB/s)"), time_s = reader.Number(row, "time_max (s)");
    ChartPoint point{.x = reader.Number(row, "data_size (MB)"), .y = bandwidth};
    // The same bytes in the median's, and in the 95th percentile's time.
    point.low = bandwidth * time_s / reader.Number(row, "p95 (s)");
    point.high = bandwidth * time_s / reader.Number(row, "p50 (s)");
    const std::string flags = reader.Text(row, "flags");
    const std::string& name = names.at(KeyOf(reader, row));
    point.tip = Join(name, ", ", ReadableBytes(point.x * 1048576), ": ", Readable(bandwidth, 4), " GB/s",
                     flags.empty() ? "" : " (" + flags + ")");
    if (bandwidth > 0) {
      least = std::min(least, bandwidth);
      most = std::max(most, bandwidth);
    }
    SeriesNamed(name, &chart).points.push_back(std::move(point));
    AddFlags(flags, &figure.flags);
  }
  for (size_t i = 0; i < chart.series.size(); ++i) {
    chart.series[i].marker = i;
    chart.series[i].style = Join("b-", std::min(i, size_t{3}));
  }
  chart.log_y = most > kLogFrom * least;
  SortPoints(&chart);
  chart.has_names = std::ranges::all_of(chart.series, [](const ChartSeries& series) {
    return NumCharacters(series.name) <= kLongestSeriesName;
  });
  if (!chart.has_names) figure.key = KeyOf(chart);
  figure.panels.push_back(PanelOf(chart.title, "", DrawLines(chart)));
  figure.caption =
      "Bus bandwidth is what each rank’s link carries: 2 (n − 1) / n times the message over the mean time of "
      "the slowest rank. The band lies between the same quantity for the median and for the 95th percentile "
      "of that time.";
  return figure;
}

std::optional<Figure> GridFigure(const Table& table, const StrategyStyles& styles) {
  const TableReader reader(table);
  const bool over_sequence = CountValues(reader, "seq_len") > 1;
  const char* x_column = over_sequence ? "seq_len" : "local_bs";
  const char* panel_column = over_sequence ? "local_bs" : "seq_len";
  Figure figure{
      .id = "grid", .title = "The part of a step that waits for synchronisation", .table = table.name()};
  std::vector<GridPanel> panels;
  std::map<std::string, double> most_of_grid;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const std::string strategy = reader.Text(row, "strategy");
    if (IsFloor(strategy)) continue;
    const std::string flags = reader.Text(row, "flags");
    const std::string model = reader.Text(row, "model"), facts = FactsOf(reader, row, kGridFacts);
    GridPanel& panel = PanelFor(model, facts, reader.Number(row, panel_column), &panels);
    const double ratio = reader.Number(row, "ratio grad all reduce to train time");
    const ChartPoint point{.x = reader.Number(row, x_column),
                           .y = 100 * ratio,
                           .tip = Join(strategy, ", batch ", reader.Any(row, "local_bs"), ", sequence ",
                                       reader.Any(row, "seq_len"), ": ", Readable(100 * ratio, 3), " %",
                                       flags.empty() ? "" : " (" + flags + ")")};
    ChartSeries& series = SeriesNamed(strategy, &panel.chart);
    series.style = styles.Of(strategy);
    series.marker = styles.MarkerOf(strategy);
    series.points.push_back(point);
    if (panel.chart.x_ticks.empty() || panel.chart.x_ticks.back() != point.x)
      panel.chart.x_ticks.push_back(point.x);
    double& most = most_of_grid[model + facts];
    most = std::fmax(most, point.y);
    AddFlags(flags, &figure.flags);
  }
  // A cell alone is no curve, unless there is nothing else.
  if (std::ranges::any_of(panels, [](const GridPanel& panel) { return HasALine(panel.chart); })) {
    std::erase_if(panels, [](const GridPanel& panel) { return !HasALine(panel.chart); });
  }
  if (panels.empty()) return std::nullopt;
  for (size_t i = 0; i < std::min(panels.size(), kMaxPanels); ++i) {
    LineChart& chart = panels[i].chart;
    chart.title = Join(panels[i].model, over_sequence ? ", batch " : ", sequence ", panels[i].fixed);
    chart.x_label = over_sequence ? "sequence length" : "batch size";
    chart.y_label = "exposed synchronisation (% of the step)";
    chart.log_x = chart.from_zero = true;
    chart.y_holds = most_of_grid[panels[i].model + panels[i].facts];
    SortPoints(&chart);
    figure.panels.push_back(PanelOf(chart.title, panels[i].facts, DrawLines(chart)));
  }
  figure.caption =
      "time_per_sync over time_per_step. Panels of one model share the vertical axis. "
      "<code>none</code>, which does not synchronise, is left out.";
  if (panels.size() > kMaxPanels)
    figure.caption += Join(" The first ", kMaxPanels, " of ", panels.size(), " panels.");
  return figure;
}

std::optional<Figure> SweepFigure(const Table& table, const StrategyStyles& styles) {
  const TableReader reader(table);
  Figure figure{.id = "sweep", .title = "Strategies over bucket sizes", .table = table.name()};
  std::vector<SweepPanel> panels;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const std::string strategy = reader.Text(row, "strategy"), baseline = reader.Text(row, "baseline"),
                      flags = reader.Text(row, "flags");
    SweepPanel& panel = PanelFor(Join(reader.Text(row, "model"), ", ", reader.Text(row, "phase")),
                                 FactsOf(reader, row, kSweepFacts), &panels);
    panel.baselines.insert(baseline);
    panel.chart.reference = 0;
    panel.chart.reference_name = "baseline " + baseline;
    AddFlags(flags, &figure.flags);
    if (strategy == baseline) continue;  // is the line at 0
    ChartPoint point{.x = reader.Number(row, "buffer_elements (Mi)"),
                     .y = reader.Number(row, "delta (%)"),
                     .low = reader.Number(row, "ci95_low (%)"),
                     .high = reader.Number(row, "ci95_high (%)")};
    point.tip =
        Join(strategy, ", ", point.x, " Mi elements: ", Readable(point.y, 3), " %, 95 % interval ",
             Readable(point.low, 3), " to ", Readable(point.high, 3), " %, mean ",
             Readable(reader.Number(row, "mean (ms)"), 4), " ms", flags.empty() ? "" : " (" + flags + ")");
    ChartSeries& series = SeriesNamed(strategy, &panel.chart);
    series.style = styles.Of(strategy);
    series.marker = styles.MarkerOf(strategy);
    series.points.push_back(std::move(point));
  }
  if (panels.empty()) return std::nullopt;
  for (size_t i = 0; i < std::min(panels.size(), kMaxPanels); ++i) {
    LineChart& chart = panels[i].chart;
    chart.title = panels[i].title;
    chart.x_label = "buffer size (Mi elements)";
    chart.y_label =
        Join("difference to ", Listed({panels[i].baselines.begin(), panels[i].baselines.end()}), " (%)");
    SortPoints(&chart);
    figure.panels.push_back(PanelOf(chart.title, panels[i].facts, DrawLines(chart)));
  }
  figure.in_pairs = figure.panels.size() % 2 == 0;
  figure.caption =
      "Mean time of each phase against the baseline, the dashed line at 0. The band is the 95 % bootstrap "
      "interval of the difference; where it holds 0, these data show none.";
  if (panels.size() > kMaxPanels)
    figure.caption += Join(" The first ", kMaxPanels, " of ", panels.size(), " panels.");
  return figure;
}

}  // namespace gradsync::tools
