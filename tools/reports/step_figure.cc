#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "model/error.h"
#include "tools/charts/chart.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"

namespace gradsync::tools {
namespace {

// Rows in which these are the same were compared.
constexpr const char* kCellColumns[] = {"model_size", "backend",    "device",  "dtype",
                                        "world_size", "batch_size", "seq_len", "run"};

// A part of a step: its name, its style, and for the figure's key some of the colours that it has (if these
// are the strategies'), and what else is said of it there.
struct PartKind {
  const char* name;
  const char* style;
  std::array<const char*, 3> colours{""};  // null: no more
  const char* remark = "";
};
constexpr PartKind kForward = {"forward", "forward"};
constexpr PartKind kBackwardAndSync = {"backward with synchronisation inside", "tax", {" c-7"}};
constexpr PartKind kComputation = {"forward and backward", "backward"};
constexpr PartKind kTheRest = {"computation, not told apart", "whole"};
constexpr PartKind kTax = {
    "tax", "tax", {" c-1", " c-3", " c-6"}, ": what forward and backward take longer beside synchronisation"};
constexpr PartKind kSync = {
    "exposed synchronisation", "sync", {" c-1", " c-3", " c-6"}, ", in the strategy’s colour"};
constexpr PartKind kOptimizer = {"optimizer and the rest", "optimizer"};

// Rows of one cell, in the order in which the table has them.
using Comparison = std::vector<size_t>;

std::vector<Comparison> ComparisonsOf(const TableReader& table) {
  std::vector<Comparison> comparisons;
  std::map<std::vector<std::string>, size_t> numbers;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    std::vector<std::string> key;
    for (const char* column : kCellColumns) key.push_back(table.Any(row, column));
    const auto [entry, is_new] = numbers.emplace(std::move(key), comparisons.size());
    if (is_new) comparisons.emplace_back();
    comparisons[entry->second].push_back(row);
  }
  return comparisons;
}

// "small, batch 2, sequence 128".
std::string TitleOf(const TableReader& table, size_t row) {
  std::string title = table.Text(row, "model_size");
  for (const auto& [name, column] : {std::pair{"batch ", "batch_size"}, {"sequence ", "seq_len"}}) {
    const std::string value = table.Any(row, column);
    if (!value.empty()) title += Join(title.empty() ? "" : ", ", name, value);
  }
  return title;
}

// They add up to the step.
std::vector<BarPart> PartsOf(const TableReader& table, size_t row, double scale) {
  std::vector<BarPart> parts;
  double left_s = table.Number(row, "time_per_step");
  const auto add = [&](const PartKind& kind, double seconds) {
    if (!(seconds > 0)) return;
    parts.push_back({kind.name, kind.style, scale * seconds});
    left_s -= seconds;
  };
  const double computed_s = table.Number(row, "forward_backward (s)"), tax_s = table.Number(row, "tax (s)"),
               forward_s = table.Number(row, "forward (s)"),
               waited_s = table.Number(row, "backward_and_sync (s)");
  if (!std::isnan(computed_s)) {
    // What computes faster than without synchronisation pays no tax.
    add(kComputation, computed_s - std::fmax(tax_s, 0));
    add(kTax, tax_s);
    add(kSync, table.Number(row, "exposed (s)"));
  } else if (!std::isnan(waited_s) && !std::isnan(forward_s)) {
    add(kForward, forward_s);
    add(kBackwardAndSync, waited_s);
  } else {
    const double sync_s = table.Number(row, "time_per_sync");
    add(kTheRest, left_s - (std::isnan(sync_s) ? 0 : sync_s));
    add(kSync, sync_s);
    return parts;
  }
  add(kOptimizer, left_s);
  return parts;
}

BarChart ChartOf(const TableReader& table, const Comparison& rows, const StrategyStyles& styles) {
  double longest_s = 0;
  std::map<std::string, int> num_rows;  // of strategies
  for (const size_t row : rows) {
    longest_s = std::fmax(longest_s, table.Number(row, "time_per_step"));
    ++num_rows[table.Text(row, "strategy")];
  }
  const double scale = longest_s >= 1 ? 1 : 1e3;
  BarChart chart{.title = TitleOf(table, rows[0]), .unit = longest_s >= 1 ? "s" : "ms"};
  chart.x_label = "time per step (" + chart.unit + ")";
  const auto is_baseline = [&](size_t row) {
    return table.Text(row, "strategy") == table.Text(row, "baseline");
  };
  if (const auto row = std::ranges::find_if(rows, is_baseline); row != rows.end()) {
    chart.reference = scale * table.Number(*row, "time_per_step");
    chart.reference_name =
        Join("baseline ", table.Text(*row, "strategy"), ": ", Readable(chart.reference, 4), " ", chart.unit);
  }
  for (const size_t row : rows) {
    const std::string strategy = table.Text(row, "strategy");
    Bar bar{.name = strategy, .style = styles.Of(strategy).classes, .parts = PartsOf(table, row, scale)};
    if (num_rows[strategy] > 1) bar.name += ", " + ReadableBytes(table.Number(row, "bucket_bytes"));
    bar.total = scale * table.Number(row, "time_per_step");
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

// Of the parts that the charts have.
std::string Key(const std::set<std::string>& drawn) {
  std::vector<std::string> entries;
  for (const PartKind& kind : {kForward, kComputation, kBackwardAndSync, kTheRest, kTax, kSync, kOptimizer}) {
    if (!drawn.contains(kind.name)) continue;
    const auto width = 18 / (std::ssize(kind.colours) - std::ranges::count(kind.colours, nullptr));
    std::string boxes;
    for (std::ptrdiff_t x = 0; x < 18; x += width) {
      boxes += Join("<rect class='part ", kind.style, kind.colours[static_cast<size_t>(x / width)], "' x='",
                    x, "' y='1' width='", width, "' height='12'/>");
    }
    entries.push_back(KeyEntry(boxes, Join(kind.name, kind.remark)));
  }
  entries.push_back(KeyEntry("<polygon class='total' points='9,2.6 13.4,7 9,11.4 4.6,7'/>", "time per step"));
  entries.push_back(
      KeyEntry("<line class='interval' x1='1' y1='7' x2='17' y2='7'/>"
               "<line class='interval' x1='1' y1='4' x2='1' y2='10'/>"
               "<line class='interval' x1='17' y1='4' x2='17' y2='10'/>",
               "95 % interval of the difference to the baseline"));
  entries.push_back(KeyEntry("<line class='reference' x1='9' y1='0' x2='9' y2='14'/>", "baseline"));
  return KeyList(entries);
}

}  // namespace

std::optional<Figure> StepTimeFigure(const Table& table, const StrategyStyles& styles) {
  if (table.num_rows() == 0) return std::nullopt;
  const TableReader reader(table);
  std::vector<Comparison> comparisons = ComparisonsOf(reader);
  const auto is_one_alone = [&](const Comparison& rows) {
    return std::ranges::all_of(
        rows, [&](size_t row) { return reader.Text(row, "strategy") == reader.Text(rows[0], "strategy"); });
  };
  Figure figure{
      .id = "step-time",
      .title = "Step time by strategy",
      .caption =
          "Grey is computation; full colour is the synchronisation that the step waits for after its last "
          "rank "
          "has computed, pale colour what computation takes longer beside communication. The parts add up to "
          "the step. The interval belongs to the difference to the baseline; where it reaches the "
          "dashed line, these data show no difference.",
      .table = table.name()};
  const bool has_alone = std::ranges::any_of(comparisons, is_one_alone),
             leaves_out = has_alone && !std::ranges::all_of(comparisons, is_one_alone);
  if (leaves_out) std::erase_if(comparisons, is_one_alone);
  if (comparisons.size() > 1) figure.caption += " Each panel has its own scale.";
  if (leaves_out) figure.caption += " What was measured with one strategy alone stands in the table only.";
  std::set<std::string> drawn;
  for (const Comparison& rows : comparisons) {
    const BarChart chart = ChartOf(reader, rows, styles);
    for (const Bar& bar : chart.bars) {
      for (const BarPart& part : bar.parts) drawn.insert(part.name);
    }
    AddPanel(chart.title, FactsOf(reader, rows[0], kRunFacts), DrawBars(chart), &figure);
    for (const size_t row : rows) AddFlags(reader, row, &figure);
  }
  figure.key = Key(drawn);
  return figure;
}

}  // namespace gradsync::tools
