#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.h"
#include "tools/run_columns.h"
#include "tools/table_builder.h"
#include "tools/training_rows.h"

// gradsync's strategies against another framework's that took their steps in turn with them.
namespace gradsync::tools {
namespace {

constexpr std::string_view kPrefix = "pytorch_";

struct Phase {
  const char* name;
  const char* samples;
};
constexpr Phase kPhases[] = {{"step", "step_ns"},
                             {"forward", "forward_ns"},
                             {"backward", "backward_ns"},
                             {"sync", "sync_exposed_ns"},
                             {"optimizer", "optimizer_ns"}};

// What does the same under PyTorch.
std::string Namesake(const std::string& strategy) {
  for (const char* const same : {"none", "naive", "flat", "overlap"}) {
    if (strategy == same) return Join(kPrefix, same);
  }
  return Join(kPrefix, "ddp");
}

std::vector<Column> Columns() {
  std::vector<Column> columns = {
      {.name = "strategy", .kind = Kind::kText, .leads = true},
      {.name = "peer", .kind = Kind::kText, .leads = true},
      {.name = "batch_size", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "seq_len", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "bucket_bytes", .kind = Kind::kInteger, .said_once = true, .leads = true},
      {.name = "phase", .kind = Kind::kText, .leads = true},
      {.name = "time (s)"},
      {.name = "peer's time (s)"},
      {.name = "ratio_to_pytorch", .kind = Kind::kFraction},
      {.name = "ci95_low", .kind = Kind::kFraction, .interval_name = "95 % CI"},
      {.name = "ci95_high", .kind = Kind::kFraction, .audience = Audience::kMachines},
      {.name = "peer equals single process", .kind = Kind::kText},
  };
  Append(RunColumns(), &columns);
  return columns;
}

class PeersTable : public TableBuilder {
 public:
  explicit PeersTable(const TableOptions& options) : options_(options) {}

  std::string_view experiment() const override { return "ddp"; }
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
        "gradsync "
        "is faster. An interval that holds 1 shows no difference.");
    table_.AddNote(
        "DistributedDataParallel (pytorch_ddp) waits for gradients inside backward and tells nothing of it: "
        "it is "
        "compared with backward and synchronisation together.");
    tables->push_back(std::move(table_));
  }

 private:
  static std::string PlaceOf(const Measurement& measurement) {
    std::string place = measurement.record.run_id;
    for (const auto& [name, value] : measurement.record.config) {
      if (name == "strategy") continue;
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
      const auto peer = peers.find(Namesake(measurement.strategy()));
      if (peer == peers.end() || measurement.strategy().starts_with(kPrefix)) continue;
      for (const Phase& phase : kPhases) AddRow(measurement, *peer->second, phase);
    }
    pending_.clear();
  }

  void AddRow(const Measurement& own, const Measurement& peer, const Phase& phase) {
    const bool together = peer.Find("sync_exposed_ns") == nullptr;
    const bool is_backward = std::string_view(phase.name) == "backward";
    const std::vector<double> own_times = Times(own, phase, together && is_backward);
    const std::vector<double> peer_times = Times(peer, phase, false);
    if (own_times.empty() || peer_times.empty()) return;
    const Interval interval =
        BootstrapRelativeDifference(own_times, peer_times, PairingOf(own, peer), options_.bootstrap);
    std::vector<Cell> cells = {own.strategy(),
                               peer.strategy(),
                               ConfigNumber(own, "batch_size"),
                               ConfigNumber(own, "seq_len"),
                               ConfigNumber(own, "bucket_bytes"),
                               std::string(together && is_backward ? "backward + sync" : phase.name),
                               Mean(own_times),
                               Mean(peer_times),
                               1 + RelativeDifference(own_times, peer_times),
                               1 + interval.low,
                               1 + interval.high,
                               EqualityOf(peer)};
    AppendRunCells(own, &cells);
    table_.AddRow(cells);
  }

  // Of each step the slowest rank's.
  static std::vector<double> Times(const Measurement& measurement, const Phase& phase, bool with_sync) {
    const Series* const series = measurement.Find(phase.samples);
    const Series* const sync = measurement.Find("sync_exposed_ns");
    if (series == nullptr || (with_sync && sync == nullptr)) return {};
    std::vector<double> times = series->max;
    for (size_t i = 0; with_sync && i < times.size(); ++i) times[i] += sync->max[i];
    return times;
  }

  const TableOptions options_;
  std::string place_;
  std::vector<Measurement> pending_;
  Table table_{"peers", "gradsync beside PyTorch", Columns()};
};

}  // namespace

std::unique_ptr<TableBuilder> MakePeersTable(const TableOptions& options) {
  return std::make_unique<PeersTable>(options);
}

}  // namespace gradsync::tools
