#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/charts/chart.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"

namespace gradsync::tools {
namespace {

constexpr const char* kCellColumns[] = {"model_size", "backend",    "device",  "dtype",
                                        "world_size", "batch_size", "seq_len", "run"};

constexpr char kTheRest[] = "computation, not told apart";
constexpr char kBackwardAndSync[] = "backward with synchronisation inside";

struct Comparison {
  std::vector<std::string> key;
  std::vector<size_t> rows;
};

std::vector<Comparison> ComparisonsOf(const TableReader& table) {
  std::vector<Comparison> comparisons;
  std::map<std::vector<std::string>, size_t> numbers;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    std::vector<std::string> key;
    for (const char* column : kCellColumns) key.push_back(table.Any(row, column));
    const auto [entry, is_new] = numbers.emplace(key, comparisons.size());
    if (is_new) comparisons.push_back({std::move(key), {}});
    comparisons[entry->second].rows.push_back(row);
  }
  return comparisons;
}

// "small, batch 2, sequence 128".
std::string TitleOf(const TableReader& table, size_t row) {
  std::string title = table.Text(row, "model_size");
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) title += Join(title.empty() ? "" : ", ", name, value);
  };
  add("batch ", table.Any(row, "batch_size"));
  add("sequence ", table.Any(row, "seq_len"));
  return title;
}

constexpr Fact kFacts[] = {
    {"backend"}, {"device"}, {"dtype"}, {.column = "world_size", .behind = " ranks"}, {"run"}};

bool Repeats(const TableReader& table, const Comparison& comparison, const std::string& strategy) {
  return std::count_if(comparison.rows.begin(), comparison.rows.end(),
                       [&](size_t row) { return table.Text(row, "strategy") == strategy; }) > 1;
}

// What is known of the step, in its order.
std::vector<BarPart> PartsOf(const TableReader& table, size_t row, double scale) {
  const auto value = [&](const char* column) { return scale * table.Number(row, column); };
  const double total = value("time_per_step"), sync = value("time_per_sync");
  std::vector<BarPart> parts = {{"forward", "forward", value("forward (s)")},
                                {"backward", "backward", value("backward (s)")},
                                {"exposed synchronisation", "sync", sync},
                                {"optimizer", "optimizer", value("optimizer (s)")}};
  if (std::isnan(parts[0].value) && std::isnan(parts[1].value)) {
    parts = {{kTheRest, "whole", std::isnan(sync) ? total : total - sync},
             {"exposed synchronisation", "sync", sync}};
  } else if (std::isnan(parts[1].value)) {
    parts[1] = {kBackwardAndSync, "backward-and-sync", value("backward_and_sync (s)")};
  }
  std::erase_if(parts, [](const BarPart& part) { return !(part.value > 0); });
  return parts;
}

BarChart ChartOf(const TableReader& table, const Comparison& comparison, const StrategyStyles& styles) {
  double longest_s = 0;
  for (const size_t row : comparison.rows)
    longest_s = std::fmax(longest_s, table.Number(row, "time_per_step"));
  const bool in_seconds = longest_s >= 1;
  const double scale = in_seconds ? 1 : 1e3;
  BarChart chart{.x_label = Join("time per step (", in_seconds ? "s" : "ms", ")"),
                 .unit = in_seconds ? "s" : "ms"};
  for (const size_t row : comparison.rows) {
    const std::string strategy = table.Text(row, "strategy");
    if (strategy != table.Text(row, "baseline")) continue;
    chart.reference = scale * table.Number(row, "time_per_step");
    chart.reference_name = Join("baseline ", strategy, ": ", Readable(chart.reference, 4), " ", chart.unit);
    break;
  }
  for (const size_t row : comparison.rows) {
    const std::string strategy = table.Text(row, "strategy");
    Bar bar{.name = strategy, .style = styles.Of(strategy)};
    if (Repeats(table, comparison, strategy))
      bar.name += ", " + ReadableBytes(table.Number(row, "bucket_bytes"));
    bar.total = scale * table.Number(row, "time_per_step");
    bar.parts = PartsOf(table, row, scale);
    const double low = table.Number(row, "ci95_low (%)"), high = table.Number(row, "ci95_high (%)");
    bar.low = chart.reference * (1 + low / 100);
    bar.high = chart.reference * (1 + high / 100);
    bar.interval_tip = Join(bar.name, ": ", Readable(table.Number(row, "delta (%)"), 3), " % against ",
                            table.Text(row, "baseline"), ", 95 % interval ", Readable(low, 3), " to ",
                            Readable(high, 3), " %");
    chart.bars.push_back(std::move(bar));
  }
  return chart;
}

// Of what the charts have.
std::string Key(const std::set<std::string>& drawn) {
  const auto box = [](const char* style) {
    return Join("<rect class='part ", style, "' x='0' y='1' width='18' height='12'/>");
  };
  const std::string sync =
      "<rect class='part sync s-naive' x='0' y='1' width='6' height='12'/>"
      "<rect class='part sync s-overlap' x='6' y='1' width='6' height='12'/>"
      "<rect class='part sync s-core' x='12' y='1' width='6' height='12'/>";
  std::vector<std::string> entries;
  const auto add = [&](const char* name, const std::string& picture, const char* text) {
    if (drawn.contains(name)) entries.push_back(KeyEntry(picture, text));
  };
  add("forward", box("forward"), "forward");
  add("backward", box("backward"), "backward");
  add(kBackwardAndSync, box("backward-and-sync s-ddp"), kBackwardAndSync);
  add(kTheRest, box("whole"), kTheRest);
  add("exposed synchronisation", sync, "exposed synchronisation, in the strategy’s colour");
  add("optimizer", box("optimizer"), "optimizer");
  entries.push_back(KeyEntry("<polygon class='total' points='9,2.6 13.4,7 9,11.4 4.6,7'/>", "time per step"));
  entries.push_back(
      KeyEntry("<line class='interval' x1='1' y1='7' x2='17' y2='7'/>"
               "<line class='interval' x1='1' y1='4' x2='1' y2='10'/>"
               "<line class='interval' x1='17' y1='4' x2='17' y2='10'/>",
               "95 % interval of the difference to the baseline"));
  entries.push_back(KeyEntry("<line class='reference' x1='9' y1='0' x2='9' y2='14'/>", "baseline"));
  return KeyList(entries);
}

size_t NumStrategies(const TableReader& table, const Comparison& comparison) {
  std::set<std::string> strategies;
  for (const size_t row : comparison.rows) strategies.insert(table.Text(row, "strategy"));
  return strategies.size();
}

}  // namespace

std::optional<Figure> StepTimeFigure(const Table& table, const StrategyStyles& styles) {
  if (table.num_rows() == 0) return std::nullopt;
  const TableReader reader(table);
  std::vector<Comparison> comparisons = ComparisonsOf(reader);
  const auto is_one_alone = [&](const Comparison& one) { return NumStrategies(reader, one) < 2; };
  const auto num_alone = std::count_if(comparisons.begin(), comparisons.end(), is_one_alone);
  const bool leaves_out = num_alone < static_cast<std::ptrdiff_t>(comparisons.size());
  if (leaves_out) std::erase_if(comparisons, is_one_alone);
  Figure figure{.id = "step-time", .title = "Step time by strategy", .table = table.name()};
  std::set<std::string> drawn;
  for (size_t i = 0; i < std::min(comparisons.size(), kMaxPanels); ++i) {
    const size_t first_row = comparisons[i].rows.front();
    BarChart chart = ChartOf(reader, comparisons[i], styles);
    chart.title = TitleOf(reader, first_row);
    for (const Bar& bar : chart.bars) {
      for (const BarPart& part : bar.parts) drawn.insert(part.name);
    }
    figure.panels.push_back(PanelOf(chart.title, FactsOf(reader, first_row, kFacts), DrawBars(chart)));
    for (const size_t row : comparisons[i].rows) AddFlags(reader.Text(row, "flags"), &figure.flags);
  }
  figure.key = Key(drawn);
  figure.caption =
      "Grey is computation; colour is the synchronisation that the step waits for. A phase is as long as on "
      "its slowest rank, so the phases need not add up to the step, which the mark below them shows. The "
      "interval belongs to the difference to the baseline; where it reaches the dashed line, these data show "
      "no difference.";
  if (comparisons.size() > 1) figure.caption += " Each panel has its own scale.";
  if (comparisons.size() > kMaxPanels)
    figure.caption += Join(" The first ", kMaxPanels, " of ", comparisons.size(), " comparisons.");
  if (leaves_out && num_alone > 0)
    figure.caption += " What was measured with one strategy alone stands in the table only.";
  return figure;
}

}  // namespace gradsync::tools
