#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/statistics/significance.h"
#include "tools/tables/builder.h"
#include "tools/tables/compare_findings.h"
#include "tools/tables/run_columns.h"
#include "tools/tables/training_rows.h"

// Strategies over bucket sizes, phase by phase, in the shape of the published comparison: a block for each
// size and phase, and every statistic with its difference to the baseline.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMebi = 1 << 20;
// With more sizes than this, people are shown the rows that machines get.
constexpr size_t kMaxBlocks = 100;

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
    {"step", "step_ns", "[step], with synchronisation and optimizer", true},
};

struct Statistic {
  const char* name;
  double percent;  // of a percentile
};
constexpr Statistic kPercentiles[] = {{"median", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};
constexpr size_t kNumPercentiles = std::size(kPercentiles);

// The columns of the long table that the blocks are made from. Those up to kPhase say which block a row
// belongs to.
enum LongColumn : size_t {
  kModel,
  kBatchSize,
  kImageSize,
  kSeqLen,
  kUnits,
  kBufferElements,
  kBackend,
  kRunColumns,
  kSteps = kRunColumns + 5,
  kPhase = kRunColumns + 7,
  kStrategy,
  kBucketBytes,
  kBuckets,
  kMean,
  kDelta,
  kLow,
  kHigh,
  kPercentileColumns,
  kBaseline = kPercentileColumns + 2 * kNumPercentiles,
  kEquality,
  kStd,
  kGradError,
  kParamError,
  kFlags
};

std::vector<Column> BlockColumns() {
  std::vector<Column> columns = {
      {.name = "model", .kind = Kind::kText, .said_once = true},
      {.name = "batch_size", .kind = Kind::kInteger, .said_once = true},
      {.name = "image_size", .kind = Kind::kInteger, .said_once = true},
      {.name = "seq_len", .kind = Kind::kInteger, .said_once = true},
      {.name = "units", .kind = Kind::kText, .said_once = true},
      {.name = "buffer_elements (Mi)", .kind = Kind::kPlain},
      {.name = "backend", .kind = Kind::kText, .said_once = true},
  };
  Append(RunColumns(), &columns);
  return columns;
}

std::string DeltaName(const char* statistic) { return Join("delta_", statistic, " (%)"); }

std::vector<Column> LongColumns() {
  std::vector<Column> columns = BlockColumns();
  Append<Column>(
      {
          {.name = "phase", .kind = Kind::kText},
          {.name = "strategy", .kind = Kind::kText},
          {.name = "bucket_bytes", .kind = Kind::kInteger},
          {.name = "buckets", .kind = Kind::kInteger},
          {.name = "mean (ms)"},
          {.name = "delta (%)", .kind = Kind::kPercent},
          {.name = "ci95_low (%)", .kind = Kind::kPercent, .interval_name = "95 % CI (%)"},
          {.name = "ci95_high (%)", .kind = Kind::kPercent, .audience = Audience::kMachines},
      },
      &columns);
  for (const Statistic& percentile : kPercentiles) {
    columns.push_back({.name = Join(percentile.name, " (ms)")});
    columns.push_back({.name = DeltaName(percentile.name), .kind = Kind::kPercent});
  }
  Append<Column>(
      {
          {.name = "baseline", .kind = Kind::kText, .said_once = true},
          {.name = "equals reference", .kind = Kind::kText},
          {.name = "std (ms)", .audience = Audience::kMachines},
          {.name = "grad_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
          {.name = "param_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
          {.name = "flags", .kind = Kind::kText},
      },
      &columns);
  return columns;
}

// What people are shown of one size: a panel for each phase with the reference's columns, strategies below
// each other.
constexpr size_t kColumnsPerPhase = 2 + 2 * kNumPercentiles + 3;

std::vector<Column> SizeColumns(int num_phases) {
  std::vector<Column> columns = BlockColumns();
  columns[kBufferElements].audience = Audience::kMachines;  // the title says it
  Append<Column>(
      {
          {.name = "strategy", .kind = Kind::kText, .leads = true},
          {.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true},
          {.name = "buckets", .kind = Kind::kInteger},
          {.name = "baseline", .kind = Kind::kText, .said_once = true},
          {.name = "equals reference", .kind = Kind::kText},
      },
      &columns);
  for (int panel = 1; panel <= num_phases; ++panel) {
    const Column time = {.name = "Mean", .digits = 5, .panel = panel};
    const Column delta = {.name = "delta%", .kind = Kind::kPercent, .panel = panel};
    columns.push_back(time);
    columns.push_back(delta);
    for (const Statistic& percentile : kPercentiles) {
      columns.push_back(time);
      columns.back().name = percentile.name;
      columns.push_back(delta);
    }
    Append<Column>({{.name = "low", .kind = Kind::kPercent, .panel = panel, .interval_name = "95 % CI (%)"},
                    {.name = "high", .kind = Kind::kPercent, .audience = Audience::kMachines},
                    {.name = "flags", .kind = Kind::kText, .panel = panel}},
                   &columns);
  }
  return columns;
}

std::string TitleOf(double buffer_mebi) { return Join("Summary for buffer_size: ", buffer_mebi, "Mi"); }

// Rows of the long table with one block's key.
using Block = std::vector<std::vector<Cell>>;

bool InSameBlock(const std::vector<Cell>& a, const std::vector<Cell>& b) {
  return std::equal(a.begin(), a.begin() + kPhase, b.begin(), [](const Cell& x, const Cell& y) {
    const double* const number = std::get_if<double>(&x);
    if (number != nullptr && *number != *number) return std::get<double>(y) != std::get<double>(y);
    return x == y;
  });
}

// Nullopt if there are too many.
std::optional<std::vector<Block>> BlocksOf(const Table& rows) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < rows.num_rows(); ++i) {
    std::vector<Cell> row = rows.row(i);
    if (blocks.empty() || !InSameBlock(blocks.back().front(), row)) {
      if (blocks.size() == kMaxBlocks) return std::nullopt;
      blocks.emplace_back();
    }
    blocks.back().push_back(std::move(row));
  }
  return blocks;
}

size_t PhaseNumber(const Cell& name) {
  const auto phase = std::find_if(std::begin(kPhases), std::end(kPhases), [&](const Phase& candidate) {
    return candidate.name == std::get<std::string>(name);
  });
  return static_cast<size_t>(phase - std::begin(kPhases));
}

// Puts a phase's numbers where its panel has them, from `to` on. Returns the p99 if it needs a mark.
std::optional<size_t> PlacePhase(const std::vector<Cell>& row, size_t to, std::vector<Cell>* cells) {
  for (const size_t from : {kMean, kDelta}) (*cells)[to++] = row[from];
  for (size_t from = kPercentileColumns; from < kBaseline; ++from) (*cells)[to++] = row[from];
  const size_t p99 = to - 2;
  for (const size_t from : {kLow, kHigh, kFlags}) (*cells)[to++] = row[from];
  const bool too_few = std::get<std::string>(row[kFlags]).find("n<100") != std::string::npos;
  return too_few ? std::optional(p99) : std::nullopt;
}

Table SizeTable(const Block& block) {
  Table table("compare_block", TitleOf(std::get<double>(block.front()[kBufferElements])),
              SizeColumns(std::size(kPhases)), Audience::kPeople);
  for (size_t i = 0; i < std::size(kPhases); ++i) {
    table.SetPanelTitle(static_cast<int>(i) + 1, Join("DDP: ", kPhases[i].title, ", ms"));
  }
  for (size_t i = 0; i < block.size();) {
    const std::vector<Cell>& first = block[i];
    std::vector<Cell> cells(first.begin(), first.begin() + kPhase);
    for (const LongColumn column : {kStrategy, kBucketBytes, kBuckets, kBaseline, kEquality}) {
      cells.push_back(first[column]);
    }
    const size_t begin = cells.size();
    for (size_t phase = 0; phase < std::size(kPhases); ++phase) {
      cells.insert(cells.end(), kColumnsPerPhase - 1, kNaN);
      cells.emplace_back("");
    }
    std::vector<size_t> to_mark;
    // A strategy's phases are neighbours, the first one first.
    do {
      const size_t place = begin + PhaseNumber(block[i][kPhase]) * kColumnsPerPhase;
      if (const auto p99 = PlacePhase(block[i], place, &cells)) to_mark.push_back(*p99);
      ++i;
    } while (i < block.size() && block[i][kPhase] != first[kPhase]);
    table.AddRow(cells);
    for (const size_t column : to_mark) table.MarkLast(column);
  }
  return table;
}

// Whether the rows are one series over sizes: one run, model, and so on.
bool IsOneSeries(const Table& rows) {
  for (size_t column = 0; column < kPhase; ++column) {
    if (column != kBufferElements && !rows.is_constant(column)) return false;
  }
  return true;
}

class CompareTable : public TableBuilder {
 public:
  explicit CompareTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "compare"; }
  std::string_view main_samples() const override { return "forward_ns"; }
  std::string_view default_baseline() const override { return "core"; }

  void Add(const Measurement& measurement, const Measurement& baseline) override {
    for (const Phase& phase : kPhases) {
      const Series* const times = measurement.Find(phase.samples);
      const Series* const base = baseline.Find(phase.samples);
      if (times != nullptr) AddRow(measurement, baseline, phase, *times, base == nullptr ? *times : *base);
    }
  }

  void Finish(std::vector<Table>* tables) override {
    if (rows_.num_rows() == 0) return;
    std::optional<std::vector<Block>> blocks = BlocksOf(rows_);
    if (!blocks) {
      AddNotes(&rows_);
    } else {
      rows_.SetAudience(Audience::kMachines);
      for (const Block& block : *blocks) {
        tables->push_back(SizeTable(block));
        if (&block == &blocks->back()) AddNotes(&tables->back());
      }
    }
    tables->push_back(std::move(rows_));
  }

 private:
  void AddRow(const Measurement& measurement, const Measurement& baseline, const Phase& phase,
              const Series& times, const Series& base) {
    const bench::Record& record = measurement.record;
    const Judged judged{measurement, times, BusBandwidthOf(measurement), &baseline};
    const std::string flags = FlagsOf(judged);
    legend_.Add(flags);
    findings_.AddTimes(phase.name, phase.has_winner, measurement, times, flags);
    std::vector<Cell> cells = {
        record.config.StringOr("model", ""),      ConfigNumber(measurement, "batch_size"),
        ConfigNumber(measurement, "image_size"),  ConfigNumber(measurement, "seq_len"),
        record.config.StringOr("units", "bytes"), ConfigNumber(measurement, "buffer_elements") / kMebi,
        record.config.StringOr("backend", ""),
    };
    AppendRunCells(measurement, &cells);
    Append<Cell>({phase.name, measurement.strategy(), ConfigNumber(measurement, "bucket_bytes"),
                  NumCollectives(measurement)},
                 &cells);
    SizeComparison comparison{.phase = phase.name,
                              .strategy = measurement.strategy(),
                              .baseline = baseline.strategy(),
                              .delta_percent = 100 * (times.mean() / base.mean() - 1),
                              .num_steps = times.num_steps()};
    if (&measurement != &baseline && !times.published && !base.published) {
      Compare(times, base, PairingOf(measurement, baseline), &comparison);
      const bool are_right = !Unequal(judged) && !Unequal({baseline, base});
      if (are_right) findings_.AddComparison(comparison);
    }
    AppendComparison(times, base, comparison, &cells);
    Append<Cell>(
        {baseline.strategy(), EqualityOf(measurement), 1e3 * times.std(),
         measurement.grad_rel_error.value_or(kNaN), measurement.param_rel_error.value_or(kNaN), flags},
        &cells);
    rows_.AddRow(cells);
    if (TooFewForP99(judged)) rows_.MarkLast("p99 (ms)");
  }

  void Compare(const Series& times, const Series& base, Pairing pairing, SizeComparison* comparison) {
    const Interval interval = bootstrap_.RelativeDifference(times.max, base.max, pairing);
    comparison->interval_percent = {100 * interval.low, 100 * interval.high};
    comparison->p_value = DifferencePValue(times.max, base.max, pairing);
    (pairing == Pairing::kRounds ? resampled_rounds_ : resampled_steps_) = true;
  }

  static void AppendComparison(const Series& times, const Series& base, const SizeComparison& comparison,
                               std::vector<Cell>* cells) {
    Append<Cell>({1e3 * times.mean(), comparison.delta_percent, comparison.interval_percent.low,
                  comparison.interval_percent.high},
                 cells);
    for (const Statistic& statistic : kPercentiles) {
      const double own = times.percentile(statistic.percent);
      Append<Cell>({1e3 * own, 100 * (own / base.percentile(statistic.percent) - 1)}, cells);
    }
  }

  void AddNotes(Table* table) {
    if (IsOneSeries(rows_)) {
      for (std::string& sentence : findings_.Sentences(options_.bootstrap)) {
        table->AddFinding(std::move(sentence));
      }
    }
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
    table->AddNote(
        Join("delta% is against the baseline's same statistic; 95 % CI: of the mean's, bootstrap of ",
             resampled_rounds_ ? "rounds" : "", resampled_rounds_ && resampled_steps_ ? " or " : "",
             resampled_steps_ || !resampled_rounds_ ? "steps" : "", " (", options_.bootstrap.resamples,
             " resamples). An interval that holds 0 shows no difference."));
    table->AddNote(
        "Sentences count a size as slower or faster if its interval excludes 0 and its p-value (Student's "
        "paired or Welch's test) is below 0.05 after Holm's adjustment for all comparisons of these tables: "
        "where nothing differs, any of them is wrong in at most one case in twenty. They leave out "
        "strategies "
        "whose gradients or parameters are wrong.");
    for (std::string& line : legend_.Lines()) table->AddNote(std::move(line));
  }

  const TableOptions options_;
  Bootstrap bootstrap_{options_.bootstrap};
  Table rows_{"compare", "Strategies over bucket sizes", LongColumns()};
  CompareFindings findings_;
  Legend legend_;
  bool resampled_rounds_ = false;
  bool resampled_steps_ = false;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeCompareTable(const TableOptions& options) {
  return std::make_unique<CompareTable>(options);
}

}  // namespace gradsync::tools
