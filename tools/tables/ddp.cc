#include <limits>
#include <utility>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/builder.h"
#include "tools/tables/findings.h"
#include "tools/tables/run_columns.h"
#include "tools/tables/training_rows.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

enum Panel : int { kBoth = 0, kSteps = 1, kPhases = 2 };

std::vector<Column> Columns() {
  std::vector<Column> columns = {
      {.name = "model_size", .kind = Kind::kText, .panel = kSteps},
      {.name = "backend", .kind = Kind::kText, .panel = kSteps},
      {.name = "time_per_step", .panel = kSteps},
      {.name = "std_time_step", .digits = 3, .panel = kSteps},
      {.name = "time_per_sync", .panel = kSteps},
      {.name = "std_time_sync", .digits = 3, .panel = kSteps},
      {.name = "fraction_sync", .kind = Kind::kFraction, .panel = kSteps},
      {.name = "strategy", .kind = Kind::kText, .leads = true},
      {.name = "batch_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "seq_len", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "forward (s)", .panel = kPhases},
      {.name = "backward (s)", .panel = kPhases},
      {.name = "backward_and_sync (s)", .panel = kPhases},
      {.name = "comm_busy (s)", .panel = kPhases},
      {.name = "overlap", .kind = Kind::kFraction, .panel = kPhases},
      {.name = "optimizer (s)", .panel = kPhases},
      {.name = "median_step (s)", .panel = kPhases},
      {.name = "p90_step (s)", .panel = kPhases},
      {.name = "p95_step (s)", .panel = kPhases},
      {.name = "p99_step (s)", .panel = kPhases},
      {.name = "collectives", .kind = Kind::kInteger, .panel = kPhases},
      {.name = "peak_memory (B/param)", .kind = Kind::kPlain, .panel = kPhases, .said_once = true},
      {.name = "delta (%)", .kind = Kind::kPercent, .panel = kSteps},
      {.name = "ci95_low (%)", .kind = Kind::kPercent, .panel = kSteps, .interval_name = "95 % CI (%)"},
      {.name = "ci95_high (%)", .kind = Kind::kPercent, .audience = Audience::kMachines},
      {.name = "baseline", .kind = Kind::kText, .panel = kSteps, .said_once = true},
      {.name = "equals single process", .kind = Kind::kText, .panel = kSteps},
      {.name = "grad_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
      {.name = "param_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
  };
  Append(RunColumns(), &columns);
  columns.push_back({.name = "flags", .kind = Kind::kText, .panel = kSteps});
  return columns;
}

class DdpTable : public TableBuilder {
 public:
  explicit DdpTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "ddp"; }
  std::string_view main_samples() const override { return "step_ns"; }

  void Add(const Measurement& measurement, const Measurement& baseline) override {
    const Series& step = *measurement.Find(main_samples());
    const Series* sync = measurement.Find("sync_exposed_ns");
    const Judged judged{measurement, step, BusBandwidthOf(measurement), &baseline};
    const std::string flags = FlagsOf(judged);
    legend_.Add(flags);
    contest_.Add(measurement, step, flags);

    const double step_s = step.mean();
    const double sync_s = MeanOf(measurement, "sync_exposed_ns");
    const bench::Record& record = measurement.record;
    std::vector<Cell> cells = {
        record.config.StringOr("model", ""),
        record.config.StringOr("backend", ""),
        step_s,
        step.std(),
        sync_s,
        sync == nullptr ? kNaN : sync->std(),
        sync_s / step_s,
        measurement.strategy(),
        ConfigNumber(measurement, "batch_size"),
        ConfigNumber(measurement, "seq_len"),
        ConfigNumber(measurement, "bucket_bytes"),
    };
    AppendPhases(measurement, step, &cells);
    AppendComparison(measurement, baseline, &cells);
    AppendRunCells(measurement, &cells);
    cells.push_back(flags);
    table_.AddRow(cells);
    if (TooFewForP99(judged)) table_.MarkLast("p99_step (s)");
  }

  void Finish(std::vector<Table>* tables) override {
    if (table_.num_rows() == 0) return;
    for (std::string& sentence : contest_.Sentences(1, false, options_.bootstrap)) {
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
    table_.AddNote(
        Join("delta: time_per_step against the row of the baseline; 95 % CI: bootstrap of ",
             resampled_rounds_ ? "rounds" : "", resampled_rounds_ && resampled_steps_ ? " or " : "",
             resampled_steps_ || !resampled_rounds_ ? "steps" : "", " (", options_.bootstrap.resamples,
             " resamples). An interval that holds 0 shows no difference."));
    for (std::string& line : legend_.Lines()) table_.AddNote(std::move(line));
    tables->push_back(std::move(table_));
  }

 private:
  static void AppendPhases(const Measurement& measurement, const Series& step, std::vector<Cell>* cells) {
    const double busy_s = MeanOf(measurement, "comm_busy_ns");
    const std::vector<double> percentiles = step.percentiles({0.5, 0.9, 0.95, 0.99});
    const double overlap = busy_s > 0 ? 1 - MeanOf(measurement, "sync_exposed_ns") / busy_s : kNaN;
    Append<Cell>({MeanOf(measurement, "forward_ns"), MeanOf(measurement, "backward_ns"),
                  MeanOf(measurement, "backward_and_sync_ns"), busy_s, overlap,
                  MeanOf(measurement, "optimizer_ns"), percentiles[0], percentiles[1], percentiles[2],
                  percentiles[3], NumCollectives(measurement), PeakBytesPerParameter(measurement)},
                 cells);
  }

  void AppendComparison(const Measurement& measurement, const Measurement& baseline,
                        std::vector<Cell>* cells) {
    const Series& series = *measurement.Find(main_samples());
    const Series& base_series = *baseline.Find(main_samples());
    const std::vector<double>& sample = series.max;
    const std::vector<double>& base = base_series.max;
    Interval interval{kNaN, kNaN};
    if (&measurement != &baseline && !measurement.is_published() && !baseline.is_published()) {
      const Pairing pairing = PairingOf(measurement, baseline);
      interval = bootstrap_.RelativeDifference(sample, base, pairing);
      (pairing == Pairing::kRounds ? resampled_rounds_ : resampled_steps_) = true;
    }
    Append<Cell>({100 * (series.mean() / base_series.mean() - 1), 100 * interval.low, 100 * interval.high,
                  baseline.strategy(), EqualityOf(measurement), measurement.grad_rel_error.value_or(kNaN),
                  measurement.param_rel_error.value_or(kNaN)},
                 cells);
  }

  const TableOptions options_;
  Bootstrap bootstrap_{options_.bootstrap};
  Table table_{"ddp", "Strategies of gradient synchronisation", Columns()};
  Legend legend_;
  Contest contest_;
  bool resampled_rounds_ = false;
  bool resampled_steps_ = false;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeDdpTable(const TableOptions& options) {
  return std::make_unique<DdpTable>(options);
}

}  // namespace gradsync::tools
