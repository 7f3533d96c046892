#include <limits>
#include <utility>

#include "tools/records/validity.h"
#include "tools/tables/all_reduce_findings.h"
#include "tools/tables/builder.h"
#include "tools/tables/run_columns.h"

namespace gradsync::tools {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kGB = 1e9;

std::vector<Column> Columns() {
  std::vector<Column> columns = {
      {.name = "backend", .kind = Kind::kText},
      {.name = "data_size (MB)", .kind = Kind::kPlain},
      {.name = "time_taken"},
      {.name = "std_time", .digits = 3},
      {.name = "time_max (s)"},
      {.name = "algbw (GB/s)"},
      {.name = "busbw (GB/s)"},
      {.name = "p50 (s)"},
      {.name = "p95 (s)"},
      {.name = "p99 (s)"},
      {.name = "wrong elements", .kind = Kind::kInteger},
      {.name = "op", .kind = Kind::kText, .said_once = true},
  };
  Append(RunColumns(), &columns);
  columns.push_back({.name = "flags", .kind = Kind::kText});
  return columns;
}

class AllReduceTable : public TableBuilder {
 public:
  explicit AllReduceTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "all_reduce"; }
  std::string_view main_samples() const override { return "time_ns"; }

  void Add(const Measurement& measurement, const Measurement&) override {
    const Series& times = *measurement.Find(main_samples());
    const double bytes = ConfigNumber(measurement, "size_bytes");
    const double mean_s = times.mean();
    const double bus_bytes_per_s = BusBandwidth(bytes, mean_s, measurement.world_size());
    const std::string flags = FlagsOf({measurement, times, bus_bytes_per_s});
    legend_.Add(flags);
    findings_.Add(measurement, times, flags);

    const double wrong = measurement.wrong_elements ? static_cast<double>(*measurement.wrong_elements)
                                                    : std::numeric_limits<double>::quiet_NaN();
    std::vector<Cell> cells = {
        measurement.record.config.StringOr("backend", ""),
        bytes / kMiB,
        Mean(times.rank_means),
        Mean(times.rank_stds),
        mean_s,
        bytes / mean_s / kGB,
        bus_bytes_per_s / kGB,
        times.percentile(0.5),
        times.percentile(0.95),
        times.percentile(0.99),
        wrong,
        measurement.record.config.StringOr("op", ""),
    };
    AppendRunCells(measurement, &cells);
    cells.push_back(flags);
    table_.AddRow(cells);
    if (TooFewForP99({measurement, times})) table_.MarkLast("p99 (s)");
  }

  void Finish(std::vector<Table>* tables) override {
    if (table_.num_rows() == 0) return;
    for (std::string& sentence : findings_.Sentences(options_.bootstrap)) {
      table_.AddFinding(std::move(sentence));
    }
    table_.AddNote("data_size: 1 MB = 2^20 bytes, 1 GB/s = 10^9 bytes per second. Times in seconds.");
    table_.AddNote(
        "time_taken, std_time: as the reference has them, the mean over ranks of each rank's own mean "
        "and population std.");
    table_.AddNote(
        "time_max: the mean of each iteration's slowest rank; algbw, busbw, p50, p95, p99 are of these. "
        "busbw = algbw x 2 (n - 1) / n.");
    for (std::string& line : legend_.Lines()) table_.AddNote(std::move(line));
    tables->push_back(std::move(table_));
  }

 private:
  const TableOptions options_;
  TransferFindings findings_;
  Table table_{"all_reduce", "All-reduce", Columns()};
  Legend legend_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeAllReduceTable(const TableOptions& options) {
  return std::make_unique<AllReduceTable>(options);
}

}  // namespace gradsync::tools
