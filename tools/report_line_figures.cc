#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/chart.h"
#include "tools/report_figures.h"
#include "tools/report_text.h"

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

// "gloo", and what else tells the table's series apart.
std::string BackendOf(const TableReader& table, size_t row) {
  std::string name = table.Text(row, "backend");
  if (!table.IsConstant("world_size")) name += Join(", ", table.Any(row, "world_size"), " ranks");
  for (const char* column : {"device", "dtype", "op"}) {
    if (!table.IsConstant(column)) name += ", " + table.Text(row, column);
  }
  return name;
}

// Whether several runs measured the same.
bool RunsRepeat(const TableReader& table) {
  std::set<std::pair<std::string, double>> seen;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    if (!seen.emplace(BackendOf(table, row), table.Number(row, "data_size (MB)")).second) return true;
  }
  return false;
}

// Columns that say which grid a row belongs to.
constexpr const char* kGridColumns[] = {"model", "backend", "device", "dtype", "world_size", "run"};

std::string GridOf(const TableReader& table, size_t row) {
  std::string name = table.Text(row, "model");
  for (const char* column : kGridColumns) {
    if (column != kGridColumns[0] && !table.IsConstant(column)) name += ", " + table.Any(row, column);
  }
  return name;
}

struct GridPanel {
  std::string grid;
  double fixed = 0;  // the batch size, or the sequence length, of all its points
  LineChart chart;
};

struct SweepPanel {
  std::string series;  // what all its points have in common
  std::string phase;
  LineChart chart;
};

// "resnet50, batch 8, images of 64", and what else tells the table's series apart.
std::string SweepOf(const TableReader& table, size_t row) {
  std::string name = table.Text(row, "model");
  const auto add = [&](const char* what, const std::string& value) {
    if (!value.empty()) name += Join(", ", what, value);
  };
  for (const auto& [column, what] :
       {std::pair{"batch_size", "batch "}, std::pair{"image_size", "images of "},
        std::pair{"seq_len", "sequence "}, std::pair{"units", "units "}, std::pair{"backend", ""},
        std::pair{"device", ""}, std::pair{"dtype", ""}, std::pair{"world_size", "ranks "},
        std::pair{"run", "run "}}) {
    if (!table.IsConstant(column)) add(what, table.Any(row, column));
  }
  return name;
}

SweepPanel& PanelFor(const std::string& series, const std::string& phase, std::vector<SweepPanel>* panels) {
  for (SweepPanel& panel : *panels) {
    if (panel.series == series && panel.phase == phase) return panel;
  }
  panels->push_back({.series = series, .phase = phase, .chart = {}});
  return panels->back();
}

size_t CountValues(const TableReader& table, const char* column) {
  std::set<double> values;
  for (size_t row = 0; row < table.num_rows(); ++row) values.insert(table.Number(row, column));
  return values.size();
}

GridPanel& PanelFor(const std::string& grid, double fixed, std::vector<GridPanel>* panels) {
  for (GridPanel& panel : *panels) {
    if (panel.grid == grid && panel.fixed == fixed) return panel;
  }
  panels->push_back({.grid = grid, .fixed = fixed, .chart = {}});
  return panels->back();
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
  const bool with_run = RunsRepeat(reader);
  double least = HUGE_VAL, most = 0;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const double bandwidth = reader.Number(row, "busbw (GB/s)"), time_s = reader.Number(row, "time_max (s)");
    ChartPoint point{.x = reader.Number(row, "data_size (MB)"), .y = bandwidth};
    // The same bytes in the median's, and in the 95th percentile's time.
    point.low = bandwidth * time_s / reader.Number(row, "p95 (s)");
    point.high = bandwidth * time_s / reader.Number(row, "p50 (s)");
    const std::string flags = reader.Text(row, "flags");
    const std::string run = reader.Text(row, "run");
    const std::string name =
        BackendOf(reader, row) + (with_run ? ", run " + run.substr(run.rfind('-') + 1) : "");
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
  figure.panels.push_back(DrawLines(chart));
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
    if (strategy == "none" || strategy.ends_with("_none")) continue;
    const std::string grid = GridOf(reader, row), flags = reader.Text(row, "flags");
    GridPanel& panel = PanelFor(grid, reader.Number(row, panel_column), &panels);
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
    double& most = most_of_grid[grid];
    most = std::fmax(most, point.y);
    AddFlags(flags, &figure.flags);
  }
  if (panels.empty()) return std::nullopt;
  for (size_t i = 0; i < std::min(panels.size(), kMaxPanels); ++i) {
    LineChart& chart = panels[i].chart;
    chart.title = Join(panels[i].grid, over_sequence ? ", batch " : ", sequence ", panels[i].fixed);
    chart.x_label = over_sequence ? "sequence length" : "batch size";
    chart.y_label = "exposed synchronisation (% of the step)";
    chart.log_x = chart.from_zero = true;
    chart.y_holds = most_of_grid[panels[i].grid];
    SortPoints(&chart);
    figure.panels.push_back(DrawLines(chart));
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
  std::set<std::string> baselines;
  for (size_t row = 0; row < reader.num_rows(); ++row) {
    const std::string strategy = reader.Text(row, "strategy"), baseline = reader.Text(row, "baseline"),
                      flags = reader.Text(row, "flags");
    baselines.insert(baseline);
    SweepPanel& panel = PanelFor(SweepOf(reader, row), reader.Text(row, "phase"), &panels);
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
    chart.title = Join(panels[i].series, ", ", panels[i].phase);
    chart.x_label = "buffer size (Mi elements)";
    chart.y_label = Join("difference to ", Listed({baselines.begin(), baselines.end()}), " (%)");
    SortPoints(&chart);
    figure.panels.push_back(DrawLines(chart));
  }
  figure.caption =
      "Mean time of each phase against the baseline, the dashed line at 0. The band is "
      "the "
      "95 % bootstrap interval of the difference; where it holds 0, these data show none.";
  if (panels.size() > kMaxPanels)
    figure.caption += Join(" The first ", kMaxPanels, " of ", panels.size(), " panels.");
  return figure;
}

}  // namespace gradsync::tools
