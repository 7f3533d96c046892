#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.h"
#include "tools/tables/builder.h"
#include "tools/tables/run_columns.h"
#include "tools/tables/training_rows.h"

// gradsync's strategies against another framework's that took their steps in turn with them.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kPrefix = "pytorch_";
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
    if (strategy == same) return {Join(kPrefix, same)};
  }
  if (strategy == "core") return {Join(kPrefix, "ddp_view"), Join(kPrefix, "ddp")};
  return {Join(kPrefix, "ddp")};
}

std::vector<Column> Columns() {
  std::vector<Column> columns = {
      {.name = "strategy", .kind = Kind::kText, .leads = true},
      {.name = "peer", .kind = Kind::kText, .leads = true},
      {.name = "batch_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "seq_len", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "image_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "phase", .kind = Kind::kText, .leads = true},
      {.name = "time (s)"},
      {.name = "peer's time (s)"},
      {.name = "ratio_to_pytorch", .kind = Kind::kFraction},
      {.name = "ci95_low", .kind = Kind::kFraction, .interval_name = "95 % CI"},
      {.name = "ci95_high", .kind = Kind::kFraction, .audience = Audience::kMachines},
      {.name = "memory (B/param)", .kind = Kind::kPlain, .said_once = true},
      {.name = "peer's memory (B/param)", .kind = Kind::kPlain, .said_once = true},
      {.name = "memory_ratio_to_pytorch", .kind = Kind::kFraction, .said_once = true},
      {.name = "peer equals single process", .kind = Kind::kText},
  };
  Append(RunColumns(), &columns);
  return columns;
}

class PeersTable : public TableBuilder {
 public:
  PeersTable(const TableOptions& options, std::string experiment, std::string title)
      : options_(options),
        experiment_(std::move(experiment)),
        table_(experiment_ == "ddp" ? "peers" : experiment_ + "_peers", std::move(title), Columns()) {}

  std::string_view experiment() const override { return experiment_; }
  std::string_view main_samples() const override { return "step_ns"; }

  // Measurements of one run at one place come one after the other; only those are kept.
  void Add(const Measurement& measurement, const Measurement&) override {
    std::string place = PlaceOf(measurement);
    if (place != place_) {
      ComparePending();
      place_ = std::move(place);
    }
    pending_.push_back(measurement);
  }

  void Finish(std::vector<Table>* tables) override {
    ComparePending();
    if (table_.num_rows() == 0) return;
    table_.AddNote(
        "ratio_to_pytorch: mean time by PyTorch's, of steps that were taken in turn in one run; below 1 "
        "gradsync is faster. An interval that holds 1 shows no difference.");
    table_.AddNote(
        "pytorch_ddp: DistributedDataParallel, which waits for gradients inside backward and tells only both "
        "together. pytorch_ddp_view: the same with gradient_as_bucket_view, so that averaged gradients are "
        "not copied back; core does without copies too.");
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
  static std::string PlaceOf(const Measurement& measurement) {
    std::string place = measurement.record.run_id;
    for (const auto& [name, value] : measurement.record.config) {
      // One of several sizes at a place belongs to a strategy and to what compares with it.
      if (name == "strategy" || name == "bucket_bytes") continue;
      std::visit([&, key = &name](const auto& held) { place += Join(" ", *key, "=", held); }, value);
    }
    return place;
  }

  void ComparePending() {
    std::map<std::string, const Measurement*> peers;
    for (const Measurement& measurement : pending_) {
      if (measurement.strategy().starts_with(kPrefix)) peers[measurement.strategy()] = &measurement;
    }
    for (const Measurement& measurement : pending_) {
      if (measurement.strategy().starts_with(kPrefix)) continue;
      for (const std::string_view mode : kModes) {
        for (const std::string& namesake : Namesakes(measurement.strategy())) {
          const auto peer = peers.find(Join(namesake, mode));
          if (peer == peers.end()) continue;
          for (const Phase& phase : kPhases) AddRow(measurement, *peer->second, phase);
          has_compiled_ |= mode == kCompiled;
          break;
        }
      }
    }
    pending_.clear();
  }

  void AddRow(const Measurement& own, const Measurement& peer, const Phase& phase) {
    const Series* const own_series = own.Find(phase.samples);
    const Series* const peer_series = peer.Find(phase.samples);
    if (own_series == nullptr || peer_series == nullptr) return;
    // Of each step the slowest rank's.
    const std::vector<double>&own_times = own_series->max, &peer_times = peer_series->max;
    const Interval interval =
        BootstrapRelativeDifference(own_times, peer_times, PairingOf(own, peer), options_.bootstrap);
    std::vector<Cell> cells = {own.strategy(),
                               peer.strategy(),
                               ConfigNumber(own, "batch_size"),
                               ConfigNumber(own, "seq_len"),
                               ConfigNumber(own, "image_size"),
                               ConfigNumber(own, "bucket_bytes"),
                               phase.name,
                               Mean(own_times),
                               Mean(peer_times),
                               1 + RelativeDifference(own_times, peer_times),
                               1 + interval.low,
                               1 + interval.high};
    // Memory is that of whole steps.
    const bool is_step = &phase == kPhases;
    const double own_bytes = is_step ? PeakBytesPerParameter(own) : kNaN;
    const double peer_bytes = is_step ? PeakBytesPerParameter(peer) : kNaN;
    Append<Cell>({own_bytes, peer_bytes, own_bytes / peer_bytes, EqualityOf(peer)}, &cells);
    has_memory_ |= own_bytes > 0 || peer_bytes > 0;
    AppendRunCells(own, &cells);
    table_.AddRow(cells);
  }

  const TableOptions options_;
  const std::string experiment_;
  std::string place_;
  std::vector<Measurement> pending_;
  bool has_compiled_ = false;
  bool has_memory_ = false;
  Table table_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakePeersTable(const TableOptions& options) {
  return std::make_unique<PeersTable>(options, "ddp", "gradsync beside PyTorch");
}

std::unique_ptr<TableBuilder> MakeComparePeersTable(const TableOptions& options) {
  return std::make_unique<PeersTable>(options, "compare", "gradsync beside PyTorch, over bucket sizes");
}

}  // namespace gradsync::tools
