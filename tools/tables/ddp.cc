#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "bench/records/units.h"
#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/buckets.h"
#include "tools/tables/builder.h"
#include "tools/tables/cost.h"
#include "tools/tables/fields.h"
#include "tools/tables/findings.h"
#include "tools/tables/intervals.h"
#include "tools/tables/training_rows.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr char kStepTime[] = "step_ns";
constexpr char kSyncTime[] = "sync_exposed_ns";

// Sections.
constexpr int kSteps = 1;
constexpr int kCosts = 2;
constexpr int kPhases = 3;
constexpr int kWork = 4;

struct Row : Measured {
  Flags flags;
  Cost cost;
  size_t difference = Intervals::kNone;  // the number of its interval: of the step, to the baseline's
  Interval interval_percent{kNaN, kNaN};
  Contest::Place place{};
};

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
  };
  AppendCommunicationFields("s", kPhases, &fields);
  Append<Field<Row>>(
      {
          {{.name = "optimizer (s)", .section = kPhases}, MeanTime("optimizer_ns")},
          {{.name = "median_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.5)},
          {{.name = "p90_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.9)},
          {{.name = "p95_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.95)},
          {{.name = "p99_step (s)", .section = kPhases}, TimePercentile(kStepTime, 0.99)},
          {{.name = "collectives", .kind = Kind::kInteger, .section = kPhases},
           [](const Row& row) { return NumCollectives(row.own); }},
          {{.name = "sent (B)", .kind = Kind::kInteger, .section = kPhases},
           [](const Row& row) { return SentBytes(row.own); }},
          {{.name = "peak_memory (B/param)", .kind = Kind::kPlain, .section = kPhases, .said_once = true},
           [](const Row& row) { return PeakBytesPerParameter(row.own); }},
          {{.name = "delta (%)", .kind = Kind::kPercent, .section = kSteps},
           [](const Row& row) {
             return 100 * (MeanOf(row.own, kStepTime) / MeanOf(row.baseline, kStepTime) - 1);
           }},
          {{.name = "ci95_low (%)",
            .kind = Kind::kPercent,
            .section = kSteps,
            .interval_name = "95 % CI (%)"},
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
          {{.name = "forward_backward (s)", .section = kCosts}, MeanTime(kComputed)},
      },
      &fields);
  AppendCostFields("s", kCosts, &fields);
  AppendWorkFields(kWork, Audience::kAll, &fields);
  AppendRunFields(&fields);
  fields.push_back({{.name = "flags", .kind = Kind::kText, .section = kSteps}, &Row::flags});
  return fields;
}

class DdpTable : public TableBuilder {
 public:
  explicit DdpTable(const TableOptions& options) : intervals_(options.bootstrap) {}

  std::string_view experiment() const override { return "ddp"; }
  std::string_view main_samples() const override { return kStepTime; }

  void Add(const Measured& measured) override {
    const Series& step = *measured.own.Find(kStepTime);
    Row row{measured, FlagsOf({measured.own, step, BusBandwidthOf(measured.own), &measured.baseline}),
            Cost(measured.own, measured.floor, &intervals_)};
    if (&row.own != &row.baseline) {
      row.difference =
          intervals_.AddRatio(SampleOf(row.own, step), SampleOf(row.baseline, *row.baseline.Find(kStepTime)));
    }
    row.place = AddToContest(row, step);
    rows_.push_back(std::move(row));
  }

  void Finish(std::vector<Table>* tables) override {
    if (rows_.empty()) return;
    contest_.Compare(&intervals_);
    intervals_.Compute();
    bool has_cost = false;
    for (Row& row : rows_) {
      row.interval_percent = InPercent(intervals_[row.difference]);
      row.cost.TakeIntervals(intervals_);
      has_cost |= !std::isnan(row.cost.sync_cost.mean);
      table_.Add(row);
      if (Has(row.flags, Flag::kTooFewForP95)) table_.MarkLast("p95_step (s)");
      if (Has(row.flags, Flag::kTooFewForP99)) table_.MarkLast("p99_step (s)");
      if (contest_.IsAmongFastest(row.place, intervals_)) table_.MarkLast("strategy");
    }
    for (std::string& sentence : contest_.Sentences(intervals_)) table_.AddFinding(std::move(sentence));
    const std::string cost = CostSentence();
    if (!cost.empty()) table_.AddFinding(cost);
    for (std::string& sentence : BackendSentences()) table_.AddFinding(std::move(sentence));
    table_.SetSectionTitle(kCosts, "What synchronisation costs, and where the cost lies");
    AddNotes(has_cost);
    tables->push_back(std::move(table_));
    AddBucketsTable("buckets", {rows_.begin(), rows_.end()}, tables);
    Table differences = DifferencesTable("ddp_differences");
    contest_.AddDifferences("", intervals_, &differences);
    if (differences.num_rows() > 0) tables->push_back(std::move(differences));
  }

 private:
  Contest::Place AddToContest(const Row& row, const Series& step) {
    const double batch_size = ConfigNumber(row.own, "batch_size"), seq_len = ConfigNumber(row.own, "seq_len");
    return contest_.Add(RunKeyOf(row.own, {"model", "backend", "device", "dtype"}),
                        std::isnan(seq_len) ? Join("batch ", batch_size) : Join(batch_size, "x", seq_len),
                        row.baseline.strategy(),
                        {row.own.strategy(), SampleOf(row.own, step), row.flags,
                         bench::FormatByteCount(row.own.record.config.IntOr("bucket_bytes", 0))});
  }

  // Of the strategies whose share of the cost is the least and the most of those whose cost is shown; empty
  // for several cells.
  std::string CostSentence() const {
    const bool is_one_cell =
        std::ranges::all_of(std::array{"batch_size", "seq_len", "run"},
                            [&](const char* name) { return table_.is_constant(table_.column(name)); });
    std::vector<const Row*> known;
    for (const Row& row : rows_) {
      if (row.cost.fraction.interval.low > 0) known.push_back(&row);
    }
    if (!is_one_cell || known.empty()) return "";
    const auto [least, most] =
        std::ranges::minmax(known, {}, [](const Row* row) { return row->cost.fraction.mean; });
    const auto share = [](const Row* row) {
      char text[32];
      std::snprintf(text, sizeof text, "%.0f to %.0f %%", 100 * row->cost.fraction.interval.low,
                    100 * row->cost.fraction.interval.high);
      return Join(text, " under ", row->own.strategy());
    };
    return Join("Of a step, synchronisation costs ", share(least), least == most ? "" : " and " + share(most),
                ".");
  }

  // What the fastest strategy's synchronisation costs over each backend, if these tell its rows apart.
  std::vector<std::string> BackendSentences() const {
    const bool are_alike =
        std::ranges::all_of(std::array{"model_size", "batch_size", "seq_len", "bucket_bytes"},
                            [&](const char* name) { return table_.is_constant(table_.column(name)); });
    if (!are_alike || table_.is_constant(table_.column("backend"))) return {};
    std::map<std::string, std::map<std::string, const Row*>> known;  // by strategy and backend
    std::set<std::string> backends;
    for (const Row& row : rows_) {
      if (row.own.strategy().starts_with(bench::kPeerPrefix)) continue;  // over what it has
      const std::string backend = row.own.record.config.StringOr("backend", "");
      backends.insert(backend);
      if (!std::isnan(row.cost.sync_cost.interval.low) &&
          !known[row.own.strategy()].emplace(backend, &row).second)
        return {};
    }
    std::erase_if(known, [&](const auto& entry) { return entry.second.size() < backends.size(); });
    if (known.empty()) return {};
    const auto steps_s = [](const auto& entry) {
      double sum_s = 0;
      for (const auto& [backend, row] : entry.second) sum_s += MeanOf(row->own, kStepTime);
      return sum_s;
    };
    const auto& [strategy, rows] = *std::ranges::min_element(known, {}, steps_s);
    const auto number = [](const char* format, auto... values) {
      char text[64];
      std::snprintf(text, sizeof text, format, values...);
      return std::string(text);
    };
    std::string costs, processor_times;
    for (const auto& [backend, row] : rows) {
      const Interval& cost = row->cost.sync_cost.interval;
      const Series* const cpu = row->own.Find("communication_cpu_ns");
      costs +=
          Join(costs.empty() ? "" : ", ", number("%.3f to %.3f s", cost.low, cost.high), " over ", backend);
      if (cpu != nullptr) {
        processor_times += Join(processor_times.empty() ? "" : ", ", number("%.3f s", Mean(cpu->rank_means)),
                                " over ", backend);
      }
    }
    std::vector<std::string> sentences = {Join("Under ", strategy, " synchronisation costs ", costs, ".")};
    if (!processor_times.empty()) {
      sentences.push_back(
          Join("Its communication takes, per step and rank, of the processor ", processor_times, "."));
    }
    return sentences;
  }

  void AddNotes(bool has_cost) {
    table_.AddNote(
        "Times in seconds. A step, and each phase of it, takes as long as on its slowest rank; std is the "
        "population's.");
    table_.AddNote(
        "time_per_sync: from the end of a rank's own backward until every gradient is averaged, of the rank "
        "that waits longest: it holds the wait for a later rank too. fraction_sync = time_per_sync / "
        "time_per_step. What synchronisation costs is sync_cost.");
    table_.AddNote(
        "backward_and_sync: to the last gradient's mean; all that a peer tells which waits inside backward.");
    AddCostNotes(has_cost, &table_);
    AddCommunicationNotes(&table_);
    table_.AddNote("compute_cpu, communication_cpu: processor seconds of a rank's process.");
    table_.AddNote("delta: time_per_step against the row of the baseline; 95 % CI: " +
                   intervals_.Description());
    table_.AddNote("Bold: shown slower by no other, and faster than some.");
  }

  Intervals intervals_;
  std::vector<Row> rows_;
  TableOf<Row> table_{"ddp", "Strategies of gradient synchronisation", Fields()};
  Contest contest_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakeDdpTable(const TableOptions& options) {
  return std::make_unique<DdpTable>(options);
}

}  // namespace gradsync::tools
