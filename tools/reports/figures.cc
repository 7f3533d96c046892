#include "tools/reports/figures.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/charts.h"
#include "tools/reports/style.h"

namespace gradsync::tools {
namespace {

constexpr double kMebi = 1 << 20;
constexpr char kNoBackend[] = "none";  // of strategies that never communicate

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

// Several variants of one strategy over one backend, at several bucket sizes.
bool IsSweep(const Cell& cell) {
  constexpr size_t kFewestSizes = 3;
  std::map<std::string, std::set<int64_t>> sizes;
  for (const Row& row : cell.rows) {
    sizes[row.strategy() + "@" + row.backend()].insert(row.config().IntOr("bucket_bytes", 0));
  }
  return std::ranges::any_of(sizes, [](const auto& entry) { return entry.second.size() >= kFewestSizes; });
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
  std::string name = row.variant();
  name.erase(std::min(name.rfind('@'), name.size()));
  for (size_t colon; (colon = name.find(':')) != std::string::npos;) {
    name.replace(colon, std::min(name.find('=', colon), name.size() - 1) - colon + 1, " ");
  }
  return name;
}

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

// The series named `name`, which is made if it is not there.
ChartSeries& SeriesNamed(const std::string& name, const std::string& style, size_t marker, LineChart* chart) {
  const auto found = std::ranges::find(chart->series, name, &ChartSeries::name);
  return found != chart->series.end() ? *found
                                      : chart->series.emplace_back(ChartSeries{name, style, marker, {}});
}

// "all_reduce, f32, cpu, 2 ranks, run 4f2a".
std::string CollectiveOf(const Row& row) {
  const bench::Record& record = row.measured->record;
  std::string text;
  for (const char* const name : {"collective", "op", "dtype", "device"}) {
    const std::string value = row.config().StringOr(name, "");
    if (!value.empty()) text += value + ", ";
  }
  const std::string& run = record.run_id;
  return Join(text, record.world_size, record.world_size == 1 ? " rank, " : " ranks, ",
              row.measured->is_published() ? run : "run " + run.substr(run.rfind('-') + 1));
}

double PercentileOf(const Row& row, double p) {
  const Series* const times = row.measured->Find("time_ns");
  return times == nullptr ? kNoValue : times->percentile(p);
}

}  // namespace

void AddPanels(std::vector<LineChart> charts, Figure* figure) {
  for (LineChart& chart : charts) {
    for (ChartSeries& series : chart.series) std::ranges::stable_sort(series.points, {}, &ChartPoint::x);
    figure->panels.push_back({chart.title, DrawLines(chart)});
  }
  figure->key = KeyOf(charts);
}

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

StrategyStyles::StrategyStyles(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (row.is_floor() || row.is_peer()) continue;
      numbers_.emplace(row.strategy(), numbers_.size() + 1);
    }
  }
}

size_t StrategyStyles::NumberOf(const Row& row) const {
  const auto found = numbers_.find(row.is_peer() ? row.facts().StringOr("twin", "") : row.strategy());
  return found == numbers_.end() ? 0 : found->second;
}

std::string StrategyStyles::ClassesOf(const Row& row) const {
  constexpr size_t kNumColours = 11;  // beside grey, in the style sheet
  const size_t number = NumberOf(row);
  return Join("c-", number == 0 ? 0 : 1 + (number - 1) % kNumColours, row.is_peer() ? " peer" : "");
}

Figure CostFigure(const std::vector<Cell>& cells, const StrategyStyles& styles) {
  Figure figure{.id = "cost",
                .title = "What a step is made of",
                .caption =
                    "Each bar is a step; its parts add up to it. The dashed line is a step without "
                    "synchronisation: what a bar has beyond it is what synchronisation costs. The line below "
                    "a bar is the 95 % interval of that cost, simultaneous for the rows of a cell. Panels of "
                    "one cell have one scale."};
  std::set<std::string> drawn;
  for (const Cell& cell : cells) {
    if (!IsTraining(cell) || IsSweep(cell)) continue;
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
      const BarChart chart = CostChart(cell, rows, title, styles);
      figure.panels.push_back({title, DrawBars(chart)});
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

Figure SweepFigure(const std::vector<Cell>& cells, const StrategyStyles& styles) {
  Figure figure{.id = "sweep",
                .title = "Strategies over bucket sizes",
                .caption =
                    "A step against the baseline’s, the dashed line at 0. The band is the simultaneous 95 % "
                    "interval of the difference; where it holds 0, these data show none."};
  std::vector<LineChart> charts;
  for (const Cell& cell : cells) {
    if (!IsTraining(cell) || !IsSweep(cell)) continue;
    if (std::ranges::none_of(cell.rows, Decides)) {
      figure.undecided[WhyUndecided(cell)].push_back(TitleOf(cell));
      continue;
    }
    const bool in_elements = cell.any().config().Find("bucket_elements") != nullptr;
    std::map<std::string, LineChart> by_baseline;
    for (const Row& row : cell.rows) {
      if (row.baseline == Row::kNone || &cell.rows[row.baseline] == &row) continue;  // the line at 0
      const Row& baseline = cell.rows[row.baseline];
      const std::string base = baseline.strategy() + "@" + baseline.backend();
      LineChart& chart = by_baseline[base];
      chart.title = TitleOf(cell);
      chart.x_label = in_elements ? "bucket size (Mi elements)" : "bucket size (MiB)";
      chart.y_label = "difference to " + base + " (%)";
      chart.reference = 0;
      chart.reference_name = "baseline " + base;
      const double size =
          row.config().DoubleOr(in_elements ? "bucket_elements" : "bucket_bytes", kNoValue) / kMebi;
      const Estimate percent = Scaled(row.against_baseline, 100);
      SeriesNamed(row.strategy() + "@" + row.backend(), styles.ClassesOf(row), styles.MarkerOf(row), &chart)
          .points.push_back({.x = size,
                             .y = percent.value,
                             .low = percent.interval.low,
                             .high = percent.interval.high,
                             .tip = Join(row.variant(), ": ", Readable(percent.value, 3), " %, 95 % CI ",
                                         Readable(percent.interval.low, 3), " to ",
                                         Readable(percent.interval.high, 3), " %")});
    }
    for (auto& [base, chart] : by_baseline) charts.push_back(std::move(chart));
  }
  AddPanels(std::move(charts), &figure);
  return figure;
}

Figure BandwidthFigure(const std::vector<Cell>& cells) {
  // From this ratio between the largest and the smallest on, bandwidths are drawn on a logarithmic axis.
  constexpr double kLogFrom = 30;
  Figure figure{
      .id = "bandwidth",
      .title = "Bandwidth over message size",
      .caption =
          "Bus bandwidth is what each rank’s link carries (of an all-reduce, 2 (n − 1) / n times the "
          "message) over the mean time of the slowest rank. The band is the same for the median and "
          "for the 95th percentile of that time."};
  std::vector<LineChart> charts;
  for (const Cell& cell : cells) {
    if (IsTraining(cell)) continue;
    const std::string title = CollectiveOf(cell.any());
    auto chart = std::ranges::find(charts, title, &LineChart::title);
    if (chart == charts.end()) {
      chart = charts.insert(charts.end(), {.title = title,
                                           .x_label = "message size (MiB)",
                                           .y_label = "bus bandwidth (GB/s)",
                                           .log_x = true,
                                           .y_holds = 0});
    }
    for (const Row& row : cell.rows) {
      const double mib = ConfigNumber(*row.measured, "size_bytes") / kMebi;
      const double bandwidth = row.bus_bytes_per_second / 1e9, mean_s = row.MeanOf("time_ns");
      const size_t number = chart->series.size();
      SeriesNamed(row.variant(), Join("b-", std::min(number, size_t{3})), number, &*chart)
          .points.push_back({.x = mib,
                             .y = bandwidth,
                             .low = bandwidth * mean_s / PercentileOf(row, 0.95),
                             .high = bandwidth * mean_s / PercentileOf(row, 0.5),
                             .tip = Join(row.variant(), ", ", ReadableBytes(mib * kMebi), ": ",
                                         Readable(bandwidth, 3), " GB/s")});
    }
  }
  // A single size is no curve.
  std::erase_if(charts, [](const LineChart& chart) {
    return std::ranges::all_of(chart.series,
                               [](const ChartSeries& series) { return series.points.size() < 2; });
  });
  for (LineChart& chart : charts) {
    double least = HUGE_VAL, most = 0;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (!(point.y > 0)) continue;
        least = std::min(least, point.y);
        most = std::max(most, point.y);
      }
    }
    chart.log_y = most > kLogFrom * least;
  }
  AddPanels(std::move(charts), &figure);
  return figure;
}

std::vector<Figure> FiguresOf(const Summary& summary) {
  const StrategyStyles styles(summary.cells);
  return {CostFigure(summary.cells, styles), SweepFigure(summary.cells, styles),
          BandwidthFigure(summary.cells), LearningFigure(summary.learning)};
}

}  // namespace gradsync::tools
