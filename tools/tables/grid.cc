#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/builder.h"
#include "tools/tables/findings.h"
#include "tools/tables/grid_outliers.h"
#include "tools/tables/run_columns.h"

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
  kRun = kModel + 5,
  kFlags
};

std::vector<Column> GridColumns() {
  return {
      {.name = "model", .kind = Kind::kText, .said_once = true},
      {.name = "backend", .kind = Kind::kText, .said_once = true},
      {.name = "device", .kind = Kind::kText, .said_once = true},
      {.name = "dtype", .kind = Kind::kText, .said_once = true},
      {.name = "world_size", .kind = Kind::kInteger, .said_once = true},
  };
}

std::vector<Column> LongColumns() {
  std::vector<Column> columns = {
      {.name = "local_bs", .kind = Kind::kInteger},
      {.name = "seq_len", .kind = Kind::kInteger},
      {.name = "total time train"},
      {.name = "total time grad all reduce"},
      {.name = "ratio grad all reduce to train time", .kind = Kind::kFraction},
      {.name = "strategy", .kind = Kind::kText},
  };
  Append(GridColumns(), &columns);
  columns.push_back({.name = "run", .kind = Kind::kText, .said_once = true});
  columns.push_back({.name = "flags", .kind = Kind::kText});
  return columns;
}

// How a row's strategy is headed: with its run where there are several, so that what others published stands
// beside one's own.
std::string HeadingOf(const Table& rows, size_t row) {
  std::string heading(rows.text(row, kStrategy));
  if (!rows.is_constant(kRun)) heading += Join(" (", rows.text(row, kRun), ")");
  return heading;
}

// The strategies' times in columns beside each other, for people. Nullopt if they would not fit, or if a
// strategy was measured twice at one place.
std::optional<Table> SideBySide(const Table& rows) {
  constexpr int kPanels = 3;
  std::vector<std::string> headings;
  for (size_t row = 0; row < rows.num_rows(); ++row) {
    const std::string heading = HeadingOf(rows, row);
    if (std::find(headings.begin(), headings.end(), heading) == headings.end()) headings.push_back(heading);
    if (headings.size() > kMaxStrategies || row >= kMaxRows) return std::nullopt;
  }
  std::vector<Column> columns = {
      {.name = "local_bs", .kind = Kind::kInteger},
      {.name = "seq_len", .kind = Kind::kInteger},
  };
  Append(GridColumns(), &columns);
  for (int panel = 1; panel <= kPanels; ++panel) {
    for (const std::string& heading : headings) {
      columns.push_back(
          {.name = heading, .kind = panel == 3 ? Kind::kFraction : Kind::kDecimal, .panel = panel});
    }
  }
  struct Line {
    std::vector<Cell> times;
    std::vector<size_t> marked;  // of times
  };
  std::map<std::vector<Cell>, Line> lines;  // by grid, batch size, sequence length
  for (size_t row = 0; row < rows.num_rows(); ++row) {
    const std::vector<Cell> cells = rows.row(row);
    std::vector<Cell> place(cells.begin() + kModel, cells.begin() + kRun);
    place.push_back(cells[kBatchSize]);
    place.push_back(cells[kSeqLen]);
    Line& line = lines[std::move(place)];
    line.times.resize(kPanels * headings.size(), kNaN);
    const size_t strategy = static_cast<size_t>(
        std::find(headings.begin(), headings.end(), HeadingOf(rows, row)) - headings.begin());
    if (!std::isnan(std::get<double>(line.times[strategy]))) return std::nullopt;
    line.times[strategy] = cells[kStep];
    line.times[headings.size() + strategy] = cells[kSync];
    line.times[2 * headings.size() + strategy] = cells[kRatio];
    if (rows.marked(row, kStep)) line.marked.push_back(strategy);
  }
  Table table("grid_side_by_side", "Batch size x sequence length", std::move(columns), Audience::kPeople);
  table.SetPanelTitle(1, "total time train (s)");
  table.SetPanelTitle(2, "total time grad all reduce (s)");
  table.SetPanelTitle(3, "ratio grad all reduce to train time");
  for (auto& [place, line] : lines) {
    std::vector<Cell> cells = {place[kRun - kModel], place[kRun - kModel + 1]};
    cells.insert(cells.end(), place.begin(), place.begin() + (kRun - kModel));
    const size_t first = cells.size();
    Append(std::move(line.times), &cells);
    table.AddRow(cells);
    for (const size_t strategy : line.marked) table.MarkLast(first + strategy);
  }
  return table;
}

class GridTable : public TableBuilder {
 public:
  explicit GridTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "ddp"; }
  std::string_view main_samples() const override { return "step_ns"; }

  void Add(const Measurement& measurement, const Measurement&) override {
    const bench::Record& record = measurement.record;
    if (record.run_id != run_id_) KeepGridsOfRun();
    run_id_ = record.run_id;
    const Series& step = *measurement.Find(main_samples());
    const Series* sync = measurement.Find("sync_exposed_ns");
    const double step_s = step.mean();
    const double sync_s = sync == nullptr ? kNaN : sync->mean();
    const std::string flags = FlagsOf({measurement, step});
    contest_.Add(measurement, step, flags);
    const Place place{ConfigNumber(measurement, "batch_size"), ConfigNumber(measurement, "seq_len")};
    grid_of_row_.push_back(GridOf(record, place));
    rows_of_run_.AddRow({place.batch_size, place.seq_len, step_s, sync_s, sync_s / step_s,
                         measurement.strategy(), record.config.StringOr("model", ""),
                         record.config.StringOr("backend", ""), record.config.StringOr("device", ""),
                         record.config.StringOr("dtype", ""), static_cast<double>(record.world_size),
                         record.run_id, flags});
  }

  void Finish(std::vector<Table>* tables) override {
    KeepGridsOfRun();
    if (long_.num_rows() == 0) return;
    FlagOutliers();
    std::optional<Table> side_by_side = SideBySide(long_);
    Table& shown = side_by_side ? *side_by_side : long_;
    for (const std::string& sentence : contest_.Sentences(2, true, options_.bootstrap)) {
      long_.AddFinding(sentence);
      if (side_by_side) side_by_side->AddFinding(sentence);
    }
    shown.AddNote(
        "total time train: time_per_step, optimizer included. total time grad all reduce: time_per_sync. "
        "ratio: the one by the other.");
    Legend legend;
    for (size_t row = 0; row < std::min(long_.num_rows(), kMaxRows); ++row) {
      legend.Add(long_.text(row, kFlags));
    }
    std::vector<std::string> lines = legend.Lines();
    for (std::string& line : lines) shown.AddNote(std::move(line));
    if (side_by_side && !lines.empty())
      shown.AddNote("*: `outlier-cell`. The flags of each row are in `ddp`.");
    if (side_by_side) {
      long_.SetAudience(Audience::kMachines);
      tables->push_back(std::move(*side_by_side));
    }
    tables->push_back(std::move(long_));
  }

 private:
  struct Place {
    double batch_size = 0;
    double seq_len = 0;  // NaN: the model has none
  };

  // What a run measured of one model, backend and so on.
  struct Grid {
    Place first;
    bool has_several = false;
  };

  static bool AreSame(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

  // The number of the record's grid among the run's.
  size_t GridOf(const bench::Record& record, const Place& place) {
    std::string name = std::to_string(record.world_size);
    for (const char* field : {"model", "backend", "device", "dtype"}) {
      name += '\n';
      name += record.config.StringOr(field, "");
    }
    const auto [entry, is_new] = grid_numbers_.try_emplace(std::move(name), grids_.size());
    if (is_new) grids_.push_back({place});
    Grid& grid = grids_[entry->second];
    grid.has_several |=
        !AreSame(place.batch_size, grid.first.batch_size) || !AreSame(place.seq_len, grid.first.seq_len);
    return entry->second;
  }

  // Takes over the rows of those grids that have more than one place.
  void KeepGridsOfRun() {
    for (size_t row = 0; row < rows_of_run_.num_rows(); ++row) {
      if (grids_[grid_of_row_[row]].has_several) long_.AddRow(rows_of_run_.row(row));
    }
    rows_of_run_ = NewLongTable();
    grid_of_row_.clear();
    grids_.clear();
    grid_numbers_.clear();
  }

  // Every strategy's grid is judged for itself, with the other strategies at the same places as witnesses.
  void FlagOutliers() {
    if (long_.num_rows() > kMaxRows) return;
    std::vector<GridCell> cells;
    for (size_t row = 0; row < long_.num_rows(); ++row) {
      std::string grid;
      for (size_t column = kModel; column < kRun; ++column) {
        grid +=
            long_.is_text(column) ? std::string(long_.text(row, column)) : Join(long_.number(row, column));
        grid += '\n';
      }
      cells.push_back({std::move(grid), Join(long_.text(row, kStrategy), " ", long_.text(row, kRun)),
                       long_.number(row, kBatchSize), long_.number(row, kSeqLen), long_.number(row, kStep)});
    }
    const std::vector<bool> outliers = OutlierCells(cells);
    Table flagged = NewLongTable();
    for (size_t row = 0; row < long_.num_rows(); ++row) {
      std::vector<Cell> line = long_.row(row);
      if (outliers[row]) {
        std::string& flags = std::get<std::string>(line[kFlags]);
        flags = flags.empty() ? "outlier-cell" : "outlier-cell " + flags;
      }
      flagged.AddRow(line);
      if (!outliers[row]) continue;
      flagged.MarkLast(size_t{kStep});
      contest_.CallOutlier(
          Contest::GroupName(long_.text(row, kRun), long_.text(row, kModel), long_.text(row, kModel + 1),
                             long_.text(row, kModel + 2), long_.text(row, kModel + 3)),
          long_.text(row, kStrategy), long_.number(row, kBatchSize), long_.number(row, kSeqLen));
    }
    long_ = std::move(flagged);
  }

  static Table NewLongTable() { return Table("grid", "Batch size x sequence length", LongColumns()); }

  const TableOptions options_;
  Contest contest_;
  std::string run_id_;  // of what follows
  Table rows_of_run_ = NewLongTable();
  std::vector<size_t> grid_of_row_;
  std::vector<Grid> grids_;
  std::map<std::string, size_t> grid_numbers_;
  Table long_ = NewLongTable();
};

}  // namespace

std::unique_ptr<TableBuilder> MakeGridTable(const TableOptions& options) {
  return std::make_unique<GridTable>(options);
}

}  // namespace gradsync::tools
