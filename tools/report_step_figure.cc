#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/chart.h"
#include "tools/report_figures.h"
#include "tools/report_text.h"

namespace gradsync::tools {
namespace {

constexpr const char* kCellColumns[] = {"model_size", "backend",    "device",  "dtype",
                                        "world_size", "batch_size", "seq_len", "run"};

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

// "small, batch 2, sequence 128", and what else tells the panels apart.
std::string TitleOf(const TableReader& table, size_t row, std::set<std::string>* seen) {
  std::string title = table.Text(row, "model_size");
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) title += Join(title.empty() ? "" : ", ", name, value);
  };
  add("batch ", table.Any(row, "batch_size"));
  add("sequence ", table.Any(row, "seq_len"));
  for (const char* column : {"backend", "device", "dtype"}) {
    if (!table.IsConstant(column)) add("", table.Text(row, column));
  }
  if (!table.IsConstant("world_size")) add("ranks ", table.Any(row, "world_size"));
  // A run's id ends in four digits of its own.
  const std::string run = table.Text(row, "run");
  if (seen->contains(title)) add("run ", run.substr(run.rfind('-') + 1));
  seen->insert(title);
  return title;
}

bool Repeats(const TableReader& table, const Comparison& comparison, const std::string& strategy) {
  return std::count_if(comparison.rows.begin(), comparison.rows.end(),
                       [&](size_t row) { return table.Text(row, "strategy") == strategy; }) > 1;
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
    const std::pair<const char*, BarPart> parts[] = {
        {"forward (s)", {.name = "forward", .style = "forward"}},
        {"backward (s)", {.name = "backward", .style = "backward"}},
        {"time_per_sync", {.name = "exposed synchronisation", .style = "sync"}},
        {"optimizer (s)", {.name = "optimizer", .style = "optimizer"}},
    };
    for (auto [column, part] : parts) {
      part.value = scale * table.Number(row, column);
      if (part.value > 0) bar.parts.push_back(part);
    }
    bar.total = scale * table.Number(row, "time_per_step");
    if (bar.parts.empty()) bar.parts.push_back({"whole step", "whole", bar.total});
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

std::string Key() {
  const auto box = [](const char* style) {
    return Join("<rect class='part ", style, "' x='0' y='1' width='18' height='12'/>");
  };
  const std::string sync =
      "<rect class='part sync s-naive' x='0' y='1' width='6' height='12'/>"
      "<rect class='part sync s-overlap' x='6' y='1' width='6' height='12'/>"
      "<rect class='part sync s-core' x='12' y='1' width='6' height='12'/>";
  return KeyList({KeyEntry(box("forward"), "forward"), KeyEntry(box("backward"), "backward"),
                  KeyEntry(sync, "exposed synchronisation, in the strategy’s colour"),
                  KeyEntry(box("optimizer"), "optimizer"),
                  KeyEntry("<polygon class='total' points='9,2.6 13.4,7 9,11.4 4.6,7'/>", "time per step"),
                  KeyEntry("<line class='interval' x1='1' y1='7' x2='17' y2='7'/>"
                           "<line class='interval' x1='1' y1='4' x2='1' y2='10'/>"
                           "<line class='interval' x1='17' y1='4' x2='17' y2='10'/>",
                           "95 % interval of the difference to the baseline"),
                  KeyEntry("<line class='reference' x1='9' y1='0' x2='9' y2='14'/>", "baseline")});
}

}  // namespace

std::optional<Figure> StepTimeFigure(const Table& table, const StrategyStyles& styles) {
  if (table.num_rows() == 0) return std::nullopt;
  const TableReader reader(table);
  const std::vector<Comparison> comparisons = ComparisonsOf(reader);
  Figure figure{.id = "step-time", .key = Key(), .title = "Step time by strategy", .table = table.name()};
  std::set<std::string> seen;
  for (size_t i = 0; i < std::min(comparisons.size(), kMaxPanels); ++i) {
    BarChart chart = ChartOf(reader, comparisons[i], styles);
    chart.title = TitleOf(reader, comparisons[i].rows.front(), &seen);
    figure.panels.push_back(DrawBars(chart));
    for (const size_t row : comparisons[i].rows) AddFlags(reader.Text(row, "flags"), &figure.flags);
  }
  figure.caption =
      "Grey is computation; colour is the synchronisation that the step waits for. A phase is as long as on "
      "its slowest rank, so the phases need not add up to the step, which the mark below them shows. The "
      "interval belongs to the difference to the baseline; where it reaches the dashed line, these data show "
      "no difference.";
  if (comparisons.size() > 1) figure.caption += " Each panel has its own scale.";
  if (comparisons.size() > kMaxPanels)
    figure.caption += Join(" The first ", kMaxPanels, " of ", comparisons.size(), " comparisons.");
  return figure;
}

}  // namespace gradsync::tools
