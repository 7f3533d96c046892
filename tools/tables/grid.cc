#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/builder.h"
#include "tools/tables/cost.h"
#include "tools/tables/fields.h"
#include "tools/tables/findings.h"
#include "tools/tables/intervals.h"
#include "tools/tables/pivot.h"

// Step and synchronisation times over several batch sizes and sequence lengths, under the names that the
// published grids have.
namespace gradsync::tools {
namespace {

// With more than this, strategies do not fit side by side, and rows are for machines.
constexpr size_t kMaxStrategies = 16;
constexpr size_t kMaxRows = 10000;

constexpr char kStepTime[] = "step_ns";
constexpr char kSyncTime[] = "sync_exposed_ns";

// Of the long table.
constexpr char kStep[] = "total time train";
constexpr char kSync[] = "total time grad all reduce";
constexpr char kShare[] = "fraction_cost";
constexpr char kRatio[] = "ratio grad all reduce to train time";

struct Row : Measured {
  Flags flags{};
  bool is_in_grid = false;
  Estimate share{};  // of synchronisation's cost in the step

  std::string grid() const;
  std::string cell() const;
  std::string series() const { return Join(own.strategy(), " ", own.record.run_id); }
  double step_s() const { return MeanOf(own, kStepTime); }
};

// What tells a cell of a grid from others, and a grid from others.
std::vector<Field<Row>> CellFields() {
  return {
      {{.name = "local_bs", .kind = Kind::kInteger}, Number("batch_size")},
      {{.name = "seq_len", .kind = Kind::kInteger}, Number("seq_len")},
  };
}
std::vector<Field<Row>> GridFields() {
  return {
      {{.name = "model", .kind = Kind::kText, .said_once = true}, Text("model")},
      {{.name = "backend", .kind = Kind::kText, .said_once = true}, Text("backend")},
      {{.name = "device", .kind = Kind::kText, .said_once = true}, Text("device")},
      {{.name = "dtype", .kind = Kind::kText, .said_once = true}, Text("dtype")},
      {{.name = "world_size", .kind = Kind::kInteger, .said_once = true},
       [](const Row& row) { return row.own.world_size(); }},
  };
}

std::vector<Field<Row>> Fields() {
  std::vector<Field<Row>> fields = CellFields();
  Append<Field<Row>>(
      {
          {{.name = kStep}, MeanTime(kStepTime)},
          {{.name = kSync}, MeanTime(kSyncTime)},
          {{.name = kRatio, .kind = Kind::kFraction},
           [](const Row& row) { return MeanOf(row.own, kSyncTime) / MeanOf(row.own, kStepTime); }},
          {{.name = "strategy", .kind = Kind::kText}, Text("strategy")},
          {{.name = kShare, .kind = Kind::kFraction}, [](const Row& row) { return row.share.mean; }},
          {{.name = Join(kShare, "_low"), .kind = Kind::kFraction, .interval_name = "95 % CI"},
           [](const Row& row) { return row.share.interval.low; }},
          {{.name = Join(kShare, "_high"), .kind = Kind::kFraction, .audience = Audience::kMachines},
           [](const Row& row) { return row.share.interval.high; }},
      },
      &fields);
  Append(GridFields(), &fields);
  fields.push_back({{.name = "run", .kind = Kind::kText, .said_once = true},
                    [](const Row& row) { return row.own.record.run_id; }});
  fields.push_back({{.name = "flags", .kind = Kind::kText}, &Row::flags});
  return fields;
}

// What a row says there, as one text.
std::string KeyOf(const Row& row, const std::vector<Field<Row>>& fields) {
  std::string key;
  for (const Field<Row>& field : fields) {
    const Cell cell = field.value(row);
    const double* const number = std::get_if<double>(&cell);
    key += (number != nullptr ? Join(*number) : std::get<std::string>(cell)) + "\n";
  }
  return key;
}
std::string Row::grid() const { return KeyOf(*this, GridFields()); }
std::string Row::cell() const { return KeyOf(*this, CellFields()); }

// Finds the grids, each of one run: those that have more than one cell.
void FindGrids(std::vector<Row>* all) {
  const auto name = [](const Row& row) { return row.own.record.run_id + "\n" + row.grid(); };
  std::map<std::string, std::set<std::string>> cells;
  for (const Row& row : *all) cells[name(row)].insert(row.cell());
  for (Row& row : *all) row.is_in_grid = cells[name(row)].size() > 1;
}

// The strategies' times in columns beside each other, for people. Nullopt if they would not fit, or if a
// strategy was measured twice in one cell.
std::optional<Table> SideBySide(const Table& rows) {
  if (rows.num_rows() > kMaxRows) return std::nullopt;
  // With its run where there are several, so that what others published stands beside one's own.
  const bool has_runs = !rows.is_constant(rows.column("run"));
  const auto heading_of = [&](size_t row) {
    return rows.text(row, "strategy") + (has_runs ? Join(" (", rows.text(row, "run"), ")") : "");
  };
  std::vector<WideColumn> columns;
  for (const Field<Row>& field : CellFields()) columns.push_back({field.column, field.column.name});
  for (const Field<Row>& field : GridFields()) columns.push_back({field.column, field.column.name});
  // Lines are in the order of grid, batch size and sequence length.
  std::vector<std::pair<std::vector<Cell>, size_t>> order;
  std::vector<std::string> headings;
  std::set<std::pair<std::vector<Cell>, std::string>> places;
  for (size_t row = 0; row < rows.num_rows(); ++row) {
    std::vector<Cell> key;
    for (const Field<Row>& field : GridFields())
      key.push_back(rows.cell(row, rows.column(field.column.name)));
    for (const Field<Row>& field : CellFields())
      key.push_back(rows.cell(row, rows.column(field.column.name)));
    const std::string heading = heading_of(row);
    if (std::ranges::count(headings, heading) == 0) headings.push_back(heading);
    if (!places.insert({key, heading}).second || headings.size() > kMaxStrategies) return std::nullopt;
    order.emplace_back(std::move(key), row);
  }
  std::ranges::stable_sort(order, std::less<>(), &std::pair<std::vector<Cell>, size_t>::first);
  std::vector<size_t> numbers;
  for (const auto& [key, row] : order) numbers.push_back(row);

  const std::pair<const char*, const char*> sections[] = {{kStep, "total time train (s)"},
                                                          {kSync, "total time grad all reduce (s)"},
                                                          {kRatio, kRatio},
                                                          {kShare, kShare}};
  int section = 0;
  for (const auto& [from, title] : sections) {
    ++section;
    const Kind kind = rows.columns()[rows.column(from)].kind;
    for (const std::string& heading : headings) {
      columns.push_back({{.name = heading, .kind = kind, .section = section}, from, heading});
    }
  }
  Table table("grid_side_by_side", "Batch size x sequence length", ColumnsOf(columns), Audience::kPeople);
  section = 0;
  for (const auto& [from, title] : sections) table.SetSectionTitle(++section, title);
  AddLines(rows, numbers, heading_of, columns, &table);
  return table;
}

class GridTable : public TableBuilder {
 public:
  explicit GridTable(const TableOptions& options) : intervals_(options.bootstrap) {}

  std::string_view experiment() const override { return "ddp"; }
  std::string_view main_samples() const override { return kStepTime; }

  void Add(const Measured& measured) override {
    all_.push_back({measured, FlagsOf({measured.own, *measured.own.Find(kStepTime)})});
  }

  void Finish(std::vector<Table>* tables) override {
    FindGrids(&all_);
    TableOf<Row> rows("grid", "Batch size x sequence length", Fields());
    const std::string trend = FindShares();
    for (const Row& row : all_) {
      if (row.is_in_grid) rows.Add(row);
    }
    if (rows.num_rows() == 0) return;
    std::optional<Table> side_by_side = SideBySide(rows);
    Table& shown = side_by_side ? *side_by_side : rows;
    shown.AddFinding(trend.empty()
                         ? "Without samples of `none` in the run the share that synchronisation costs is "
                           "unknown."
                         : trend);
    shown.AddNote(
        "total time train: time_per_step, optimizer included. total time grad all reduce: time_per_sync. "
        "ratio: the one by the other. fraction_cost: of the step, what it takes longer than that of `none` "
        "in "
        "the same rounds.");
    if (!trend.empty()) {
      shown.AddNote(
          "The share falls, or rises, if from each cell to the next its interval lies beyond the one "
          "before. " +
          intervals_.Description());
    }
    if (side_by_side) {
      shown.AddNote("The flags of each row are in `ddp`.");
      rows.SetAudience(Audience::kMachines);
      tables->push_back(*std::move(side_by_side));
    }
    tables->push_back(std::move(rows));
  }

 private:
  // Of all rows in grids; says what they show.
  std::string FindShares() {
    for (Row& row : all_) {
      if (!row.is_in_grid) continue;
      row.share = Cost(row.own, row.floor, &intervals_).fraction;
    }
    intervals_.Compute();
    std::vector<ShareInCell> shares;
    for (Row& row : all_) {
      const Interval ratio = intervals_[row.share.number];
      row.share.interval = {-ratio.high, -ratio.low};
      if (row.share.number == Intervals::kNone) continue;
      shares.push_back({row.series(), ConfigNumber(row.own, "batch_size"), ConfigNumber(row.own, "seq_len"),
                        row.share.interval});
    }
    return TrendSentence(shares);
  }

  Intervals intervals_;
  std::vector<Row> all_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeGridTable(const TableOptions& options) {
  return std::make_unique<GridTable>(options);
}

}  // namespace gradsync::tools
