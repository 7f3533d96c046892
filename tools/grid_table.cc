#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tools/run_columns.h"
#include "tools/table_builder.h"
#include "tools/validity.h"

// Step and synchronisation times over several batch sizes and sequence lengths, under the names that the
// published grids have.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// With more than this, strategies do not fit side by side, and rows are for machines.
constexpr size_t kMaxStrategies = 16;
constexpr size_t kMaxRows = 10000;

// The columns of the long table; those from kModel on say which grid a row belongs to.
enum LongColumn : size_t {
  kBatchSize,
  kSeqLen,
  kStep,
  kSync,
  kRatio,
  kStrategy,
  kModel,
  kFlags = kModel + 6
};

std::vector<Column> GridColumns() {
  return {
      {.name = "model", .kind = Kind::kText, .said_once = true},
      {.name = "backend", .kind = Kind::kText, .said_once = true},
      {.name = "device", .kind = Kind::kText, .said_once = true},
      {.name = "dtype", .kind = Kind::kText, .said_once = true},
      {.name = "world_size", .kind = Kind::kInteger, .said_once = true},
      {.name = "run", .kind = Kind::kText, .said_once = true},
  };
}

std::vector<Column> LongColumns() {
  std::vector<Column> columns = {
      {.name = "local_bs", .kind = Kind::kInteger},
      {.name = "seq_len", .kind = Kind::kInteger},
      {.name = "total time train"},
      {.name = "total time grad all reduce"},
      {.name = "ratio", .kind = Kind::kFraction},
      {.name = "strategy", .kind = Kind::kText},
  };
  Append(GridColumns(), &columns);
  columns.push_back({.name = "flags", .kind = Kind::kText});
  return columns;
}

// The strategies' times in columns beside each other, for people. Nullopt if they would not fit, or if a
// strategy was measured twice at one place.
std::optional<Table> SideBySide(const Table& rows) {
  constexpr int kPanels = 3;
  std::vector<std::string> strategies;
  for (size_t row = 0; row < rows.num_rows(); ++row) {
    const std::string strategy(rows.text(row, kStrategy));
    if (std::find(strategies.begin(), strategies.end(), strategy) == strategies.end())
      strategies.push_back(strategy);
    if (strategies.size() > kMaxStrategies || row >= kMaxRows) return std::nullopt;
  }
  std::vector<Column> columns = {
      {.name = "local_bs", .kind = Kind::kInteger},
      {.name = "seq_len", .kind = Kind::kInteger},
  };
  Append(GridColumns(), &columns);
  for (int panel = 1; panel <= kPanels; ++panel) {
    for (const std::string& strategy : strategies) {
      columns.push_back(
          {.name = strategy, .kind = panel == 3 ? Kind::kFraction : Kind::kDecimal, .panel = panel});
    }
  }
  std::map<std::vector<Cell>, std::vector<Cell>> times_of;  // by place: batch size, sequence length, grid
  for (size_t row = 0; row < rows.num_rows(); ++row) {
    const std::vector<Cell> cells = rows.row(row);
    std::vector<Cell> place = {cells[kBatchSize], cells[kSeqLen]};
    place.insert(place.end(), cells.begin() + kModel, cells.begin() + kFlags);
    std::vector<Cell>& times = times_of[std::move(place)];
    times.resize(kPanels * strategies.size(), kNaN);
    const size_t strategy = static_cast<size_t>(
        std::find(strategies.begin(), strategies.end(), rows.text(row, kStrategy)) - strategies.begin());
    if (!std::isnan(std::get<double>(times[strategy]))) return std::nullopt;
    times[strategy] = cells[kStep];
    times[strategies.size() + strategy] = cells[kSync];
    times[2 * strategies.size() + strategy] = cells[kRatio];
  }
  Table table("grid_side_by_side", "Batch size x sequence length", std::move(columns), Audience::kPeople);
  table.SetPanelTitle(1, "total time train (s)");
  table.SetPanelTitle(2, "total time grad all reduce (s)");
  table.SetPanelTitle(3, "ratio");
  for (auto& [place, times] : times_of) {
    std::vector<Cell> cells = place;
    Append(std::move(times), &cells);
    table.AddRow(cells);
  }
  return table;
}

class GridTable : public TableBuilder {
 public:
  std::string_view experiment() const override { return "ddp"; }
  std::string_view main_samples() const override { return "step_ns"; }

  void Add(const Measurement& measurement, const Measurement&) override {
    const bench::Record& record = measurement.record;
    if (record.run_id != run_id_) KeepGridsOfRun();
    run_id_ = record.run_id;
    const Series& step = *measurement.Find(main_samples());
    const Series* sync = measurement.Find("sync_exposed_ns");
    const double step_s = Mean(step.max);
    const double sync_s = sync == nullptr ? kNaN : Mean(sync->max);
    rows_of_run_.AddRow({ConfigNumber(measurement, "batch_size"), ConfigNumber(measurement, "seq_len"),
                         step_s, sync_s, sync_s / step_s, measurement.strategy(),
                         record.config.StringOr("model", ""), record.config.StringOr("backend", ""),
                         record.config.StringOr("device", ""), record.config.StringOr("dtype", ""),
                         static_cast<double>(record.world_size), record.run_id,
                         FlagsOf({measurement, step})});
  }

  void Finish(std::vector<Table>* tables) override {
    KeepGridsOfRun();
    if (long_.num_rows() == 0) return;
    std::optional<Table> side_by_side = SideBySide(long_);
    Table& shown = side_by_side ? *side_by_side : long_;
    shown.AddNote(
        "total time train: time_per_step, optimizer included. total time grad all reduce: time_per_sync. "
        "ratio: the one by the other.");
    if (side_by_side) {
      long_.SetAudience(Audience::kMachines);
      tables->push_back(std::move(*side_by_side));
    }
    tables->push_back(std::move(long_));
  }

 private:
  // Takes over the rows of those models, backends and so on that this run measured at more than one place.
  void KeepGridsOfRun() {
    using Key = std::vector<Cell>;
    struct Grid {
      Key first_place;
      bool has_several = false;
    };
    std::map<Key, Grid> grids;
    const auto grid_of = [&](const Key& row) -> Grid& {
      return grids[Key(row.begin() + kModel, row.begin() + kFlags)];
    };
    for (size_t i = 0; i < rows_of_run_.num_rows(); ++i) {
      const Key row = rows_of_run_.row(i);
      const Key place = {row[kBatchSize], row[kSeqLen]};
      Grid& grid = grid_of(row);
      if (grid.first_place.empty()) grid.first_place = place;
      grid.has_several |= place != grid.first_place;
    }
    for (size_t i = 0; i < rows_of_run_.num_rows(); ++i) {
      const Key row = rows_of_run_.row(i);
      if (grid_of(row).has_several) long_.AddRow(row);
    }
    rows_of_run_ = NewLongTable();
  }

  static Table NewLongTable() { return Table("grid", "Batch size x sequence length", LongColumns()); }

  std::string run_id_;
  Table rows_of_run_ = NewLongTable();
  Table long_ = NewLongTable();
};

}  // namespace

std::unique_ptr<TableBuilder> MakeGridTable(const TableOptions&) { return std::make_unique<GridTable>(); }

}  // namespace gradsync::tools
