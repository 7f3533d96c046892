#include <limits>
#include <optional>
#include <utility>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/all_reduce_findings.h"
#include "tools/tables/builder.h"
#include "tools/tables/fields.h"

namespace gradsync::tools {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kGB = 1e9;

constexpr char kTime[] = "time_ns";

struct Row : Measured {
  double bytes = 0;
  double mean_s = 0;
  double bus_bytes_per_s = 0;
  Flags flags;

  const Series& times() const { return *own.Find(kTime); }
};

std::vector<Field<Row>> Fields() {
  std::vector<Field<Row>> fields = {
      {{.name = "backend", .kind = Kind::kText}, Text("backend")},
      {{.name = "data_size (MB)", .kind = Kind::kPlain}, [](const Row& row) { return row.bytes / kMiB; }},
      {{.name = "time_taken"}, [](const Row& row) { return Mean(row.times().rank_means); }},
      {{.name = "std_time", .digits = 3}, [](const Row& row) { return Mean(row.times().rank_stds); }},
      {{.name = "time_max (s)"}, &Row::mean_s},
      {{.name = "back_to_back (s)"}, MeanTime("back_to_back_ns")},
      {{.name = "algbw (GB/s)"}, [](const Row& row) { return row.bytes / row.mean_s / kGB; }},
      {{.name = "busbw (GB/s)"}, [](const Row& row) { return row.bus_bytes_per_s / kGB; }},
      {{.name = "p50 (s)"}, TimePercentile(kTime, 0.5)},
      {{.name = "p95 (s)"}, TimePercentile(kTime, 0.95)},
      {{.name = "p99 (s)"}, TimePercentile(kTime, 0.99)},
      {{.name = "wrong elements", .kind = Kind::kInteger},
       [](const Row& row) {
         const std::optional<int64_t>& wrong = row.own.wrong_elements;
         return wrong ? static_cast<double>(*wrong) : std::numeric_limits<double>::quiet_NaN();
       }},
      {{.name = "collective", .kind = Kind::kText, .said_once = true}, Text("collective")},
      {{.name = "op", .kind = Kind::kText, .said_once = true}, Text("op")},
  };
  AppendRunFields(&fields);
  fields.push_back({{.name = "flags", .kind = Kind::kText}, &Row::flags});
  return fields;
}

class AllReduceTable : public TableBuilder {
 public:
  explicit AllReduceTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "all_reduce"; }
  std::string_view main_samples() const override { return kTime; }

  void Add(const Measured& measured) override {
    const Measurement& measurement = measured.own;
    const Series& times = *measurement.Find(kTime);
    Row row{measured, ConfigNumber(measurement, "size_bytes"), times.mean(), 0, {}};
    const std::string collective = Text("collective")(row);
    row.bus_bytes_per_s = BusBandwidth(row.bytes, row.mean_s, measurement.world_size(), collective);
    row.flags = FlagsOf({measurement, times, row.bus_bytes_per_s});
    RunKey run = RunKeyOf(measurement, {"collective", "device", "op", "dtype"});
    run.push_back(Join(measurement.world_size(), " ranks"));
    Transfer transfer{.backend = Text("backend")(row),
                      .size_bytes = row.bytes,
                      .world_size = measurement.world_size(),
                      .times = SampleOf(measurement, times),
                      .wrong_elements = measurement.wrong_elements,
                      .flags = row.flags,
                      .collective = collective,
                      .run = std::move(run)};
    transfers_.push_back(std::move(transfer));
    table_.Add(row);
    if (Has(row.flags, Flag::kTooFewForP95)) table_.MarkLast("p95 (s)");
    if (Has(row.flags, Flag::kTooFewForP99)) table_.MarkLast("p99 (s)");
  }

  void Finish(std::vector<Table>* tables) override {
    if (table_.num_rows() == 0) return;
    for (std::string& sentence : TransferSentences(transfers_, options_.bootstrap)) {
      table_.AddFinding(std::move(sentence));
    }
    table_.AddNote("data_size: 1 MB = 2^20 bytes, 1 GB/s = 10^9 bytes per second. Times in seconds.");
    table_.AddNote(
        "time_taken, std_time: as the reference has them, the mean over ranks of each rank's own mean "
        "and population std.");
    table_.AddNote(
        "time_max: the mean of each iteration's slowest rank; algbw, busbw, p50, p95, p99 are of these. "
        "busbw = algbw x 2 (n - 1) / n; of reduce_scatter and all_gather half of that, of broadcast algbw.");
    table_.AddNote(
        "back_to_back: of each of several without a barrier between them, as nccl-tests has it; ranks that "
        "are "
        "late are not waited for.");
    tables->push_back(std::move(table_));
  }

 private:
  const TableOptions options_;
  std::vector<Transfer> transfers_;
  TableOf<Row> table_{"all_reduce", "All-reduce", Fields()};
};

}  // namespace

std::unique_ptr<TableBuilder> MakeAllReduceTable(const TableOptions& options) {
  return std::make_unique<AllReduceTable>(options);
}

}  // namespace gradsync::tools
