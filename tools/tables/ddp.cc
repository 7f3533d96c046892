#include <limits>
#include <utility>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/builder.h"
#include "tools/tables/fields.h"
#include "tools/tables/findings.h"
#include "tools/tables/training_rows.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr char kStepTime[] = "step_ns";
constexpr char kSyncTime[] = "sync_exposed_ns";
constexpr char kBusyTime[] = "comm_busy_ns";

// Sections.
constexpr int kSteps = 1;
constexpr int kPhases = 2;

struct Row : Measured {
  Interval interval_percent;  // of the step's difference to the baseline's
  Flags flags;
};

double Overlap(const Row& row) {
  const double busy_s = MeanOf(row.own, kBusyTime);
  return busy_s > 0 ? 1 - MeanOf(row.own, kSyncTime) / busy_s : kNaN;
}

std::vector<Field<Row>> Fields() {
  std::vector<Field<Row>> fields = {
      {{.name = "model_size", .kind = Kind::kText, .section = kSteps}, Text("model")},
      {{.name = "backend", .kind = Kind::kText, .section = kSteps}, Text("backend")},
      {{.name = "time_per_step", .section = kSteps}, MeanTime(kStepTime)},
      {{.name = "std_time_step", .digits = 3, .section = kSteps}, StdTime(kStepTime)},
      {{.name = "time_per_sync", .section = kSteps}, MeanTime(kSyncTime)},
      {{.name = "std_time_sync", .digits = 3, .section = kSteps}, StdTime(kSyncTime)},
      {{.name = "fraction_sync", .kind = Kind::kFraction, .section = kSteps},
       [](const Row& row) { return MeanOf(row.own, kSyncTime) / MeanOf(row.own, kStepTime); }},
      {{.name = "strategy", .kind = Kind::kText, .leads = true}, Text("strategy")},
      {{.name = "batch_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
       Number("batch_size")},
      {{.name = "seq_len", .kind = Kind::kInteger, .said_once = true, .leads = true}, Number("seq_len")},
      {{.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true, .leads = true},
       Number("bucket_bytes")},
      {{.name = "forward (s)", .section = kPhases}, MeanTime("forward_ns")},
      {{.name = "backward (s)", .section = kPhases}, MeanTime("backward_ns")},
      {{.name = "backward_and_sync (s)", .section = kPhases}, MeanTime("backward_and_sync_ns")},
      {{.name = "comm_busy (s)", .section = kPhases}, MeanTime(kBusyTime)},
      {{.name = "overlap", .kind = Kind::kFraction, .section = kPhases}, Overlap},
      {{.name = "optimizer (s)", .section = kPhases}, MeanTime("optimizer_ns")},
      {{.name = "median_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.5)},
      {{.name = "p90_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.9)},
      {{.name = "p95_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.95)},
      {{.name = "p99_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.99)},
      {{.name = "collectives", .kind = Kind::kInteger, .section = kPhases},
       [](const Row& row) { return NumCollectives(row.own); }},
      {{.name = "peak_memory (B/param)", .kind = Kind::kPlain, .section = kPhases, .said_once = true},
       [](const Row& row) { return PeakBytesPerParameter(row.own); }},
      {{.name = "delta (%)", .kind = Kind::kPercent, .section = kSteps},
       [](const Row& row) {
         return 100 * (MeanOf(row.own, kStepTime) / MeanOf(row.baseline, kStepTime) - 1);
       }},
      {{.name = "ci95_low (%)", .kind = Kind::kPercent, .section = kSteps, .interval_name = "95 % CI (%)"},
       [](const Row& row) { return row.interval_percent.low; }},
      {{.name = "ci95_high (%)", .kind = Kind::kPercent, .audience = Audience::kMachines},
       [](const Row& row) { return row.interval_percent.high; }},
      {{.name = "baseline", .kind = Kind::kText, .section = kSteps, .said_once = true},
       [](const Row& row) { return row.baseline.strategy(); }},
      {{.name = "equals single process", .kind = Kind::kText, .section = kSteps},
       [](const Row& row) { return EqualityOf(row.own); }},
      {{.name = "grad_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
       [](const Row& row) { return row.own.grad_rel_error.value_or(kNaN); }},
      {{.name = "param_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
       [](const Row& row) { return row.own.param_rel_error.value_or(kNaN); }},
  };
  AppendRunFields(&fields);
  fields.push_back({{.name = "flags", .kind = Kind::kText, .section = kSteps}, &Row::flags});
  return fields;
}

class DdpTable : public TableBuilder {
 public:
  explicit DdpTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "ddp"; }
  std::string_view main_samples() const override { return kStepTime; }

  void Add(const Measurement& measurement, const Measurement& baseline) override {
    const Series& step = *measurement.Find(kStepTime);
    Row row{{measurement, baseline}, {}, {}};
    row.flags = FlagsOf({measurement, step, BusBandwidthOf(measurement), &baseline});
    row.interval_percent = intervals_.PercentOf(row, step, *baseline.Find(kStepTime));
    legend_.Add(row.flags);
    findings_.Add(measurement, step, row.flags);
    table_.Add(row);
    if (Has(row.flags, Flag::kTooFewForP95)) table_.MarkLast("p95_step (s)");
    if (Has(row.flags, Flag::kTooFewForP99)) table_.MarkLast("p99_step (s)");
  }

  void Finish(std::vector<Table>* tables) override {
    if (table_.num_rows() == 0) return;
    for (std::string& sentence : findings_.Sentences(1, false, options_.bootstrap)) {
      table_.AddFinding(std::move(sentence));
    }
    table_.AddNote(
        "Times in seconds. A step, and each phase of it, takes as long as on its slowest rank; std is the "
        "population's.");
    table_.AddNote(
        "time_per_sync: from the end of backward until every gradient is averaged, what synchronisation "
        "adds to a step. fraction_sync = time_per_sync / time_per_step.");
    table_.AddNote(
        "backward_and_sync: to the last gradient's mean; all that a peer tells which waits inside backward.");
    table_.AddNote(
        "comm_busy: time with communication in flight. overlap = 1 - time_per_sync / comm_busy, the part "
        "of it hidden behind backward; below 0 where synchronisation does more than communicate.");
    table_.AddNote("delta: time_per_step against the row of the baseline; 95 % CI: " +
                   intervals_.Description());
    for (std::string& line : legend_.Lines()) table_.AddNote(std::move(line));
    tables->push_back(std::move(table_));
  }

 private:
  const TableOptions options_;
  BaselineIntervals intervals_{options_.bootstrap};
  TableOf<Row> table_{"ddp", "Strategies of gradient synchronisation", Fields()};
  Legend legend_;
  StepFindings findings_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeDdpTable(const TableOptions& options) {
  return std::make_unique<DdpTable>(options);
}

}  // namespace gradsync::tools
