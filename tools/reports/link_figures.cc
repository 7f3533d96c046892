#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"
#include "tools/tables/links.h"

// Figures about what moves gradients: backends, and links of limited rate.
namespace gradsync::tools {
namespace {

constexpr double kGB = 1e9;

// "−20", and below "±8".
MapCell MapCellOf(const Row& row) {
  const Estimate percent = Scaled(row.against_baseline, 100);
  if (!percent.interval.is_known()) return {.text = row.no_verdict};
  const double half_width = percent.interval.half_width();
  const int decimals = half_width < 1 ? 1 : 0;
  return {.style = std::string(WordOf(row.verdict)),
          .text = Signed(percent.value, decimals),
          .below = "±" + Fixed(half_width, decimals),
          .tip = Join(row.variant(), ": ", PercentText(row.against_baseline))};
}

// The interval of the typical time of a collective, from its iterations.
Interval TimeInterval(const Row& row) {
  std::vector<size_t> launches;
  for (const Launch& launch : row.measured->launches) launches.push_back(launch.num_steps);
  const std::vector<double>& times = MainTimes(*row.measured).max;
  if (times.size() < kFewestForInterval) return {};
  return EstimateRounds(std::vector<RoundDifferences>{{.values = times}}, launches).front().interval;
}

}  // namespace

Figure BandwidthFigure(const std::vector<Cell>& cells) {
  Figure figure{
      .id = "bandwidth",
      .table = "all_reduce",
      .caption =
          "Bus bandwidth, by the trimmed mean of each iteration's slowest rank; the bands are its 95 % "
          "intervals. 1 KiB is 2^10 bytes, 1 MiB 2^20, 1 GB 10^9."};
  LineChart chart{
      .title = "Bus bandwidth", .x_label = "size", .y_label = "GB/s", .log_x = true, .log_y = true};
  std::map<double, std::string> sizes;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (!row.strategy().empty() || row.measured->wrong_elements.value_or(0) > 0) continue;
      const std::string collective = row.config().StringOr("collective", "");
      const std::string name = Join(row.backend(), collective == "all_reduce" ? "" : " " + collective);
      auto series = std::ranges::find(chart.series, name, &ChartSeries::name);
      if (series == chart.series.end()) series = chart.series.insert(series, {.name = name});
      const int64_t size_bytes = row.config().IntOr("size_bytes", 0);
      const auto size = static_cast<double>(size_bytes);
      const std::string& size_text = sizes[size] = SizeText(size_bytes);
      const double speed = row.bus_bytes_per_second / kGB;
      // The bandwidth is so many bytes over the time.
      const double bytes = speed * row.step_s;
      // With few iterations the interval may reach zero, where the bandwidth has no bound: then there is no
      // band.
      const Interval interval = TimeInterval(row);
      const Interval time = interval.low > 0 ? interval : Interval{row.step_s, row.step_s};
      series->points.push_back({size,
                                {speed, {bytes / time.high, bytes / time.low}},
                                Join(name, ", ", size_text, ": ", Readable(speed, 3), " GB/s")});
    }
  }
  for (ChartSeries& series : chart.series) std::ranges::stable_sort(series.points, {}, &ChartPoint::x);
  if (std::ranges::none_of(chart.series, [](const ChartSeries& series) { return series.points.size() > 1; }))
    return figure;
  for (const auto& [bytes, text] : sizes) chart.x_ticks.push_back({bytes, text});
  figure.panels.push_back({"", DrawLines(chart)});
  figure.key = SeriesKey({chart});
  return figure;
}

Figure LinksFigure(const std::vector<Cell>& cells) {
  Figure figure{
      .id = "links",
      .table = "links",
      .caption =
          "How much longer a row's step is than the baseline's over the same link; intervals of one run "
          "hold at once. Rates are those of the link in each direction."};
  const auto [rows, rates, all_backends] = LinksOf(cells);
  if (rows.empty()) return figure;
  const std::vector<std::string> backends(all_backends.rbegin(), all_backends.rend());
  std::map<std::string, std::vector<std::string>> where;  // names of rows
  for (const OverLinks& row : rows) where[FasterWhere(row)].push_back(row.any.row.label());
  std::vector<std::string> parts, others;
  for (const auto& [place, names] : where) {
    const bool is_answer = !place.starts_with("open") && place != "never";
    (is_answer ? parts : others).push_back(Join(place, ": ", Listed(names)));
  }
  parts.insert(parts.end(), others.begin(), others.end());
  figure.title = Join("Faster than ", rows[0].any.base()->label(), " ", absl::StrJoin(parts, "; "));
  MapChart chart{.title = figure.title, .columns = backends};
  for (const double rate : rates) chart.columns.push_back(RateText(rate));
  std::set<Verdict> verdicts;
  for (const OverLinks& row : rows) {
    auto& [name, map_cells] = chart.rows.emplace_back(row.any.row.label(), std::vector<MapCell>());
    const auto add = [&, &map_cells = map_cells](const auto& views, const auto& place) {
      const auto found = views.find(place);
      if (found != views.end()) verdicts.insert(found->second.row.verdict);
      map_cells.push_back(found == views.end() ? MapCell{} : MapCellOf(found->second.row));
    };
    for (const std::string& backend : backends) add(row.by_backend, backend);
    for (const double rate : rates) add(row.by_rate, rate);
  }
  for (const Verdict verdict : kVerdicts) {
    if (verdicts.contains(verdict)) figure.key.push_back(VerdictKey(verdict, "cell"));
  }
  chart.note = Join("% of the step of ", rows[0].any.base()->label(),
                    ", ± half its 95 % interval; by the rate of the link",
                    backends.empty() ? "" : Join(", and on one host over ", Listed(backends)));
  figure.panels.push_back({"", DrawMap(chart)});
  return figure;
}

}  // namespace gradsync::tools
