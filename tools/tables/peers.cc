#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/error.h"
#include "tools/tables/builder.h"
#include "tools/tables/fields.h"
#include "tools/tables/intervals.h"
#include "tools/tables/training_rows.h"

// gradsync's strategies against another framework's that took their steps in turn with them.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// How peers ran the model, as their names end.
constexpr std::string_view kModes[] = {"", kCompiled};

struct Phase {
  const char* name;
  const char* samples;
};
constexpr Phase kPhases[] = {{"step", "step_ns"},
                             {"forward", "forward_ns"},
                             {"backward", "backward_ns"},
                             {"sync", "sync_exposed_ns"},
                             {"backward + sync", "backward_and_sync_ns"},
                             {"optimizer", "optimizer_ns"}};

// What does the same under PyTorch, best first.
std::vector<std::string> Namesakes(const std::string& strategy) {
  for (const char* const same : {"none", "naive", "flat", "overlap"}) {
    if (strategy == same) return {Join(kPeerPrefix, same)};
  }
  if (strategy == "core") return {Join(kPeerPrefix, "ddp_view"), Join(kPeerPrefix, "ddp")};
  return {Join(kPeerPrefix, "ddp")};
}

// A phase of one of gradsync's strategies beside its peer's; of each step the slowest rank's.
struct Row : Measured {
  const Measurement& peer;
  const Phase& phase;
  const std::vector<double>& own_times;
  const std::vector<double>& peer_times;
  size_t number = Intervals::kNone;
  Interval interval{};  // of the difference

  // Memory is that of whole steps.
  double BytesOf(const Measurement& measurement) const {
    return &phase == kPhases ? PeakBytesPerParameter(measurement) : kNaN;
  }
};

std::vector<Field<Row>> Fields() {
  std::vector<Field<Row>> fields = {
      {{.name = "strategy", .kind = Kind::kText, .leads = true}, Text("strategy")},
      {{.name = "peer", .kind = Kind::kText, .leads = true},
       [](const Row& row) { return row.peer.strategy(); }},
      {{.name = "batch_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
       Number("batch_size")},
      {{.name = "seq_len", .kind = Kind::kInteger, .said_once = true, .leads = true}, Number("seq_len")},
      {{.name = "image_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
       Number("image_size")},
      {{.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true, .leads = true},
       Number("bucket_bytes")},
      {{.name = "phase", .kind = Kind::kText, .leads = true}, [](const Row& row) { return row.phase.name; }},
      {{.name = "time (s)"}, [](const Row& row) { return Mean(row.own_times); }},
      {{.name = "peer's time (s)"}, [](const Row& row) { return Mean(row.peer_times); }},
      {{.name = "ratio_to_pytorch", .kind = Kind::kFraction},
       [](const Row& row) { return 1 + RelativeDifference(row.own_times, row.peer_times); }},
      {{.name = "ci95_low", .kind = Kind::kFraction, .interval_name = "95 % CI"},
       [](const Row& row) { return 1 + row.interval.low; }},
      {{.name = "ci95_high", .kind = Kind::kFraction, .audience = Audience::kMachines},
       [](const Row& row) { return 1 + row.interval.high; }},
      {{.name = "memory (B/param)", .kind = Kind::kPlain, .said_once = true},
       [](const Row& row) { return row.BytesOf(row.own); }},
      {{.name = "peer's memory (B/param)", .kind = Kind::kPlain, .said_once = true},
       [](const Row& row) { return row.BytesOf(row.peer); }},
      {{.name = "memory_ratio_to_pytorch", .kind = Kind::kFraction, .said_once = true},
       [](const Row& row) { return row.BytesOf(row.own) / row.BytesOf(row.peer); }},
      {{.name = "peer equals single process", .kind = Kind::kText},
       [](const Row& row) { return EqualityOf(row.peer); }},
  };
  AppendRunFields(&fields);
  return fields;
}

class PeersTable : public TableBuilder {
 public:
  PeersTable(const TableOptions& options, std::string experiment, std::string title)
      : intervals_(options.bootstrap),
        experiment_(std::move(experiment)),
        table_(experiment_ == "ddp" ? "peers" : experiment_ + "_peers", std::move(title), Fields()) {}

  std::string_view experiment() const override { return experiment_; }
  std::string_view main_samples() const override { return "step_ns"; }

  void AddGroup(const std::vector<Measured>& rows) override {
    std::map<std::string, const Measurement*> peers;
    for (const Measured& row : rows) {
      if (row.own.strategy().starts_with(kPeerPrefix)) peers[row.own.strategy()] = &row.own;
    }
    for (const Measured& row : rows) {
      if (row.own.strategy().starts_with(kPeerPrefix)) continue;
      for (const std::string_view mode : kModes) {
        for (const std::string& namesake : Namesakes(row.own.strategy())) {
          const auto peer = peers.find(Join(namesake, mode));
          if (peer == peers.end()) continue;
          for (const Phase& phase : kPhases) AddRow(row.own, *peer->second, phase);
          has_compiled_ |= mode == kCompiled;
          const std::string backend = row.own.record.config.StringOr("backend", "");
          has_own_backend_ |= backend != "gloo" && backend != "nccl";
          break;
        }
      }
    }
  }
  void Add(const Measured& row) override { AddGroup({row}); }

  void Finish(std::vector<Table>* tables) override {
    intervals_.Compute();
    for (Row& row : rows_) {
      row.interval = intervals_[row.number];
      has_memory_ |= row.BytesOf(row.own) > 0 || row.BytesOf(row.peer) > 0;
      table_.Add(row);
    }
    if (table_.num_rows() == 0) return;
    table_.AddFinding(Headline());
    table_.AddNote(
        "ratio_to_pytorch: mean time by PyTorch's, of steps that were taken in turn in one run; below 1 "
        "gradsync is faster. An interval that holds 1 shows no difference; all of the table hold at once.");
    table_.AddNote(
        "pytorch_ddp: DistributedDataParallel, which waits for gradients inside backward and tells only both "
        "together. pytorch_ddp_view: the same with gradient_as_bucket_view, so that averaged gradients are "
        "not copied back; core does without copies too.");
    if (has_own_backend_) table_.AddNote("PyTorch's ranks communicate over gloo: it has not this backend.");
    if (has_compiled_) {
      table_.AddNote(
          "_compiled: the model under torch.compile, in its default mode. Compilation came before the first "
          "step; the optimizer is the same as without.");
    }
    if (has_memory_) {
      table_.AddNote(
          "memory: of the device, at the peak of the timed steps, for each parameter; in each program only "
          "what the one strategy needs.");
    }
    tables->push_back(std::move(table_));
  }

 private:
  void AddRow(const Measurement& own, const Measurement& peer, const Phase& phase) {
    const Series* const own_series = own.Find(phase.samples);
    const Series* const peer_series = peer.Find(phase.samples);
    if (own_series == nullptr || peer_series == nullptr) return;
    rows_.push_back({{own, own},
                     peer,
                     phase,
                     own_series->max,
                     peer_series->max,
                     intervals_.AddRatio(SampleOf(own, *own_series), SampleOf(peer, *peer_series))});
  }

  // Of whole steps, in at most 25 words.
  std::string Headline() const {
    size_t faster = 0;
    size_t slower = 0;
    size_t all = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const Row& row : rows_) {
      if (&row.phase != kPhases) continue;
      ++all;
      faster += row.interval.high < 0 ? 1 : 0;
      slower += row.interval.low > 0 ? 1 : 0;
      const double ratio = 1 + RelativeDifference(row.own_times, row.peer_times);
      least = std::min(least, ratio);
      most = std::max(most, ratio);
    }
    char range[64];
    std::snprintf(range, sizeof range, "%.2f to %.2f", least, most);
    return Join("Steps take ", range, " times as long as PyTorch's: of ", all, " pairs ", faster,
                " are shown faster, ", slower, " slower.");
  }

  Intervals intervals_;
  std::vector<Row> rows_;
  const std::string experiment_;
  bool has_own_backend_ = false;  // which PyTorch does without
  bool has_compiled_ = false;
  bool has_memory_ = false;
  TableOf<Row> table_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakePeersTable(const TableOptions& options) {
  return std::make_unique<PeersTable>(options, "ddp", "gradsync beside PyTorch");
}

std::unique_ptr<TableBuilder> MakeComparePeersTable(const TableOptions& options) {
  return std::make_unique<PeersTable>(options, "compare", "gradsync beside PyTorch, over bucket sizes");
}

}  // namespace gradsync::tools
