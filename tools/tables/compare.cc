#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/buckets.h"
#include "tools/tables/builder.h"
#include "tools/tables/compare_findings.h"
#include "tools/tables/cost.h"
#include "tools/tables/fields.h"
#include "tools/tables/findings.h"
#include "tools/tables/intervals.h"
#include "tools/tables/pivot.h"
#include "tools/tables/training_rows.h"

// Strategies over bucket sizes, phase by phase, in the shape of the published comparison: a block for each
// size and phase, and every statistic with its difference to the baseline.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMebi = 1 << 20;
constexpr char kBufferColumn[] = "buffer_elements (Mi)";
constexpr char kLow[] = "ci95_low (%)";
constexpr char kHigh[] = "ci95_high (%)";
// With more sizes than this, people are shown the rows that machines get; with more rows no sentences.
constexpr size_t kMaxBlocks = 100;
constexpr size_t kMaxRows = 2000;

constexpr char kStepPhase[] = "step";

struct Phase {
  const char* name;
  const char* samples;
  const char* title;
  bool has_winner = false;  // what strategies compete in
};
constexpr Phase kPhases[] = {
    {"forward", "forward_ns", "[forward]"},
    {"backward", "backward_ns", "[backward], to the last gradient's computation"},
    {"backward_and_sync", "backward_and_sync_ns",
     "[backward_and_sync], to the last gradient's mean: what the published [backward] is", true},
    {kStepPhase, "step_ns", "[step], with synchronisation and optimizer", true},
};

struct Statistic {
  const char* name;
  double percent;  // of a percentile
};
constexpr Statistic kPercentiles[] = {{"median", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};

// One phase of a measurement.
struct Row : Measured {
  const Phase& phase;
  const Series& times;
  const Series& base;
  Flags flags;
  Cost cost;  // of the step; in other phases unknown
  size_t difference = Intervals::kNone;
  Interval interval_percent{kNaN, kNaN};

  double delta_percent() const { return 100 * (times.mean() / base.mean() - 1); }
};

// What a block shares.
std::vector<Field<Row>> BlockFields() {
  std::vector<Field<Row>> fields = {
      {{.name = "model", .kind = Kind::kText, .said_once = true}, Text("model")},
      {{.name = "batch_size", .kind = Kind::kInteger, .said_once = true}, Number("batch_size")},
      {{.name = "image_size", .kind = Kind::kInteger, .said_once = true}, Number("image_size")},
      {{.name = "seq_len", .kind = Kind::kInteger, .said_once = true}, Number("seq_len")},
      {{.name = "units", .kind = Kind::kText, .said_once = true},
       [](const Row& row) { return row.own.record.config.StringOr("units", "bytes"); }},
      {{.name = kBufferColumn, .kind = Kind::kPlain},
       [](const Row& row) { return ConfigNumber(row.own, "buffer_elements") / kMebi; }},
      {{.name = "backend", .kind = Kind::kText, .said_once = true}, Text("backend")},
  };
  AppendRunFields(&fields);
  return fields;
}

std::string TimeName(const Statistic& statistic) { return Join(statistic.name, " (ms)"); }
std::string DeltaName(const Statistic& statistic) { return Join("delta_", statistic.name, " (%)"); }

// A row for each phase.
std::vector<Field<Row>> Fields() {
  std::vector<Field<Row>> fields = BlockFields();
  Append<Field<Row>>(
      {
          {{.name = "phase", .kind = Kind::kText}, [](const Row& row) { return row.phase.name; }},
          {{.name = "strategy", .kind = Kind::kText}, Text("strategy")},
          {{.name = "bucket_bytes", .kind = Kind::kInteger}, Number("bucket_bytes")},
          {{.name = "buckets", .kind = Kind::kInteger},
           [](const Row& row) { return NumCollectives(row.own); }},
          {{.name = "mean (ms)"}, [](const Row& row) { return 1e3 * row.times.mean(); }},
          {{.name = "delta (%)", .kind = Kind::kPercent}, &Row::delta_percent},
          {{.name = kLow, .kind = Kind::kPercent, .interval_name = "95 % CI (%)"},
           [](const Row& row) { return row.interval_percent.low; }},
          {{.name = kHigh, .kind = Kind::kPercent, .audience = Audience::kMachines},
           [](const Row& row) { return row.interval_percent.high; }},
      },
      &fields);
  for (const Statistic& statistic : kPercentiles) {
    const double p = statistic.percent;
    fields.push_back(
        {{.name = TimeName(statistic)}, [p](const Row& row) { return 1e3 * row.times.percentile(p); }});
    fields.push_back({{.name = DeltaName(statistic), .kind = Kind::kPercent}, [p](const Row& row) {
                        return 100 * (row.times.percentile(p) / row.base.percentile(p) - 1);
                      }});
  }
  AppendCommunicationFields("ms", 0, &fields);
  AppendCostFields("ms", 0, &fields);
  AppendWorkFields(0, Audience::kMachines, &fields);
  Append<Field<Row>>(
      {
          {{.name = "baseline", .kind = Kind::kText, .said_once = true},
           [](const Row& row) { return row.baseline.strategy(); }},
          {{.name = "equals reference", .kind = Kind::kText},
           [](const Row& row) { return EqualityOf(row.own); }},
          {{.name = "std (ms)", .audience = Audience::kMachines},
           [](const Row& row) { return 1e3 * row.times.std(); }},
          {{.name = "grad_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
           [](const Row& row) { return row.own.grad_rel_error.value_or(kNaN); }},
          {{.name = "param_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
           [](const Row& row) { return row.own.param_rel_error.value_or(kNaN); }},
          {{.name = "flags", .kind = Kind::kText}, &Row::flags},
      },
      &fields);
  return fields;
}

// What people are shown of one size: a section for each phase with the reference's columns, strategies below
// each other.
std::vector<WideColumn> WideColumns() {
  std::vector<WideColumn> columns;
  for (const Field<Row>& field : BlockFields()) columns.push_back({field.column, field.column.name});
  for (WideColumn& column : columns) {
    if (column.from == kBufferColumn) column.column.audience = Audience::kMachines;  // the title says it
  }
  for (const Column& column : {Column{.name = "strategy", .kind = Kind::kText, .leads = true},
                               Column{.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true},
                               Column{.name = "buckets", .kind = Kind::kInteger},
                               Column{.name = "baseline", .kind = Kind::kText, .said_once = true},
                               Column{.name = "equals reference", .kind = Kind::kText}}) {
    columns.push_back({column, column.name});
  }
  int section = 0;
  for (const Phase& phase : kPhases) {
    ++section;
    const auto add = [&](Column column, const std::string& from) {
      column.section = section;
      columns.push_back({std::move(column), from, phase.name});
    };
    add({.name = "Mean", .digits = 5}, "mean (ms)");
    add({.name = "delta%", .kind = Kind::kPercent}, "delta (%)");
    for (const Statistic& statistic : kPercentiles) {
      add({.name = statistic.name, .digits = 5}, TimeName(statistic));
      add({.name = "delta%", .kind = Kind::kPercent}, DeltaName(statistic));
    }
    add({.name = "low", .kind = Kind::kPercent, .interval_name = "95 % CI (%)"}, kLow);
    add({.name = "high", .kind = Kind::kPercent, .audience = Audience::kMachines}, kHigh);
    add({.name = "flags", .kind = Kind::kText}, "flags");
  }
  std::vector<Field<Row>> of_steps;
  AppendCostFields("ms", section + 1, &of_steps);
  AppendCommunicationFields("ms", section + 2, &of_steps);
  for (const Field<Row>& field : of_steps) columns.push_back({field.column, field.column.name, kStepPhase});
  return columns;
}

// The numbers of neighbouring rows that share all columns before the phase. Nullopt if there are too many.
std::optional<std::vector<std::vector<size_t>>> BlocksOf(const Table& rows) {
  const auto num_shared = static_cast<std::ptrdiff_t>(rows.column("phase"));
  const auto are_one_block = [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
    return std::equal(a.begin(), a.begin() + num_shared, b.begin(), AreSame);
  };
  std::vector<std::vector<size_t>> blocks;
  for (size_t row = 0; row < rows.num_rows(); ++row) {
    if (row == 0 || !are_one_block(rows.row(row - 1), rows.row(row))) {
      if (blocks.size() == kMaxBlocks) return std::nullopt;
      blocks.emplace_back();
    }
    blocks.back().push_back(row);
  }
  return blocks;
}

Table BlockTable(const Table& rows, const std::vector<size_t>& block) {
  const std::vector<WideColumn> columns = WideColumns();
  Table table("compare_block", Join("Summary for buffer_size: ", rows.number(block[0], kBufferColumn), "Mi"),
              ColumnsOf(columns), Audience::kPeople);
  int section = 0;
  for (const Phase& phase : kPhases) table.SetSectionTitle(++section, Join("DDP: ", phase.title, ", ms"));
  table.SetSectionTitle(++section, "DDP: what synchronisation costs, and where the cost lies, ms");
  table.SetSectionTitle(++section, "DDP: communication, ms");
  AddLines(
      rows, block, [&](size_t row) { return rows.text(row, "phase"); }, columns, &table);
  return table;
}

class CompareTable : public TableBuilder {
 public:
  explicit CompareTable(const TableOptions& options) : intervals_(options.bootstrap) {}

  std::string_view experiment() const override { return "compare"; }
  std::string_view main_samples() const override { return "forward_ns"; }
  std::string_view default_baseline() const override { return "core"; }

  void Add(const Measured& measured) override {
    for (const Phase& phase : kPhases) {
      const Series* const times = measured.own.Find(phase.samples);
      const Series* const base = measured.baseline.Find(phase.samples);
      if (times != nullptr) AddRow(measured, phase, *times, base == nullptr ? *times : *base);
    }
  }

  void Finish(std::vector<Table>* tables) override {
    if (rows_.empty()) return;
    for (auto& [phase, contest] : contests_) contest.Compare(&intervals_);
    intervals_.Compute();
    bool has_cost = false;
    for (Row& row : rows_) {
      row.interval_percent = InPercent(intervals_[row.difference]);
      row.cost.TakeIntervals(intervals_);
      has_cost |= !std::isnan(row.cost.sync_cost.mean);
      table_.Add(row);
      if (Has(row.flags, Flag::kTooFewForP95)) table_.MarkLast("p95 (ms)");
      if (Has(row.flags, Flag::kTooFewForP99)) table_.MarkLast("p99 (ms)");
    }
    const std::optional<std::vector<std::vector<size_t>>> blocks = BlocksOf(table_);
    if (!blocks) {
      AddFindings(&table_);
      AddNotes(has_cost, &table_);
    } else {
      table_.SetAudience(Audience::kMachines);
      for (const std::vector<size_t>& block : *blocks) {
        tables->push_back(BlockTable(table_, block));
        Table& table = tables->back();
        if (&block == &blocks->front()) AddFindings(&table);
        if (&block == &blocks->back()) AddNotes(has_cost, &table);
      }
    }
    tables->push_back(std::move(table_));
    AddBucketsTable("compare_buckets", steps_, tables);
    Table differences = DifferencesTable("compare_differences");
    for (const auto& [phase, contest] : contests_) {
      contest.AddDifferences(Join(phase->name, " "), intervals_, &differences);
    }
    if (differences.num_rows() > 0) tables->push_back(std::move(differences));
  }

 private:
  void AddRow(const Measured& measured, const Phase& phase, const Series& times, const Series& base) {
    const bool is_step = std::string_view(phase.name) == kStepPhase;
    Row row{measured,
            phase,
            times,
            base,
            FlagsOf({measured.own, times, BusBandwidthOf(measured.own), &measured.baseline}),
            Cost(measured.own, is_step ? measured.floor : nullptr, &intervals_)};
    if (&row.own != &row.baseline && &times != &base) {
      row.difference = intervals_.AddRatio(SampleOf(row.own, times), SampleOf(row.baseline, base));
    }
    if (is_step) steps_.push_back(measured);
    const RunKey run = RunKeyOf(measured.own, {"model", "backend", "device", "dtype", "units"});
    runs_.insert(run);
    if (phase.has_winner) {
      const auto [contest, is_new] = contests_.try_emplace(&phase, Words{.of_case = "size", .at = "at"});
      contest->second.Add(run, Join(ConfigNumber(row.own, "buffer_elements") / kMebi, "Mi"),
                          row.baseline.strategy(), {row.own.strategy(), SampleOf(row.own, times), row.flags});
    }
    rows_.push_back(std::move(row));
  }

  // First, for each phase that has a winner, who is fastest, steps first. Then, of one series over sizes, how
  // each strategy compares with the baseline; not where the gradients or parameters of either are wrong.
  void AddFindings(Table* table) {
    for (auto phase = contests_.rbegin(); phase != contests_.rend(); ++phase) {
      for (const std::string& sentence : phase->second.Sentences(intervals_)) {
        table->AddFinding(Join(phase->first->name, ": ", sentence));
      }
    }
    if (runs_.size() > 1 || rows_.size() > kMaxRows) return;
    std::vector<SizeComparison> comparisons;
    for (const Phase& phase : kPhases) {
      for (const Row& row : rows_) {
        const bool are_right =
            !Has(row.flags, Flag::kUnequal) && !Has(FlagsOf({row.baseline, row.base}), Flag::kUnequal);
        if (&row.phase != &phase || row.difference == Intervals::kNone || !are_right) continue;
        comparisons.push_back({.phase = phase.name,
                               .strategy = row.own.strategy(),
                               .baseline = row.baseline.strategy(),
                               .delta_percent = row.delta_percent(),
                               .interval_percent = row.interval_percent,
                               .num_steps = row.times.num_steps()});
      }
    }
    for (std::string& sentence : TallySentences(comparisons)) table->AddFinding(std::move(sentence));
  }

  void AddNotes(bool has_cost, Table* table) {
    table->AddNote(
        "Times in ms; of each step the slowest rank's. Forward begins with the broadcast of rank 0's "
        "buffers, "
        "for every strategy alike.");
    table->AddNote(
        "backward ends with the last gradient's computation. backward_and_sync ends when every gradient is "
        "averaged: the backward pass of the published comparison, whose strategies wait inside of it.");
    table->AddNote(
        "units: bytes: at one size all strategies have buckets of as many bytes, elements x size of an "
        "element. published: core's buckets have so many MiB, the others' so many Mi elements, as in the "
        "original; with f32, theirs are 4 times as large.");
    AddCostNotes(has_cost, table);
    AddCommunicationNotes(table);
    table->AddNote("delta% is against the baseline's same statistic; 95 % CI: of the mean's, " +
                   intervals_.Description());
    table->AddNote(
        "Sentences count a size as slower or faster if its interval excludes 0: where nothing differs, any "
        "of "
        "them is wrong in at most one case in twenty. They leave out strategies whose gradients or "
        "parameters "
        "are wrong.");
  }

  Intervals intervals_;
  std::vector<Row> rows_;
  std::vector<Measured> steps_;  // of the rows that are of whole steps
  TableOf<Row> table_{"compare", "Strategies over bucket sizes", Fields()};
  std::map<const Phase*, Contest> contests_;  // of those that have a winner, in their order
  std::set<RunKey> runs_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeCompareTable(const TableOptions& options) {
  return std::make_unique<CompareTable>(options);
}

}  // namespace gradsync::tools
