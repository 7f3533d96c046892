#include "tools/records/measurement_stream.h"

#include <deque>
#include <memory>
#include <utility>

#include "tools/records/in_order.h"

namespace gradsync::tools {
namespace {

constexpr size_t kBatchBytes = size_t{4} << 20;  // of lines

using Entries = std::span<const RecordIndex::Entry>;

Entries TakeCell(Entries* entries) {
  return TakeGroup(entries, [](const auto& a, const auto& b) { return a.cell == b.cell; });
}

Entries TakeMeasurement(Entries* entries) {
  return TakeGroup(entries, [](const auto& a, const auto& b) { return a.measurement == b.measurement; });
}

}  // namespace

// Reads the batches of one slot, one after the other, into memory that is used again.
class MeasurementStream::Loader {
 public:
  explicit Loader(const MeasurementStream& stream) : stream_(stream), reader_(stream.index_) {}

  // Replaces what was loaded before.
  void Load(const Batch& batch) {
    num_taken_ = 0;
    items_.clear();
    rejected_.clear();
    num_records_ = 0;
    cells_without_baseline_ = 0;
    const Entries all = stream_.index_.entries();
    size_t begin = batch.begin;
    for (size_t cell_begin = batch.cell_begin; begin < batch.end;) {
      Entries rest = all.subspan(cell_begin);
      const Entries cell = TakeCell(&rest);
      const size_t cell_end = cell_begin + cell.size();
      const size_t end = std::min(cell_end, batch.end);
      LoadCell(cell, all.subspan(begin, end - begin), begin == cell_begin);
      begin = cell_begin = cell_end;
    }
  }

  // Reports what was loaded.
  void Take(MeasurementStream* stream, const Use& use) {
    for (const auto& [measurement, baseline] : items_) use(*measurement, *baseline);
    for (auto& [entry, reason] : rejected_) stream->index_.Reject(*entry, std::move(reason));
    stream->num_records_ += num_records_;
    stream->cells_without_baseline_ += cells_without_baseline_;
  }

 private:
  using Rejected = std::vector<std::pair<const RecordIndex::Entry*, std::string>>;

  // A measurement as it was read, and the records that are missing from it.
  struct Loaded {
    const Measurement* measurement = nullptr;  // null: of no use
    int64_t num_records = 0;
    Rejected rejected;
  };

  // `part`: those of the cell's measurements that belong to the batch.
  void LoadCell(Entries cell, Entries part, bool is_first_part) {
    const Entries wanted = stream_.BaselineOfCell(cell);
    const bool has_strategies = !stream_.index_.strategies()[cell.front().strategy].empty();
    if (is_first_part && wanted.empty() && has_strategies) ++cells_without_baseline_;
    // Where the baseline's own records are spoilt, the first that can be read takes its place. It may belong
    // to another batch, which then reports on it.
    Entries baseline_entries = wanted;
    Loaded baseline;
    if (!wanted.empty()) baseline = LoadMeasurement(wanted);
    for (Entries rest = cell; baseline.measurement == nullptr && !rest.empty();) {
      baseline_entries = TakeMeasurement(&rest);
      baseline = LoadMeasurement(baseline_entries);
    }
    while (!part.empty()) {
      const Entries entries = TakeMeasurement(&part);
      const bool is_baseline = entries.data() == baseline_entries.data();
      Report(is_baseline ? baseline : LoadMeasurement(entries), baseline.measurement);
    }
  }

  void Report(const Loaded& loaded, const Measurement* baseline) {
    num_records_ += loaded.num_records;
    rejected_.insert(rejected_.end(), loaded.rejected.begin(), loaded.rejected.end());
    if (loaded.measurement != nullptr) items_.emplace_back(loaded.measurement, baseline);
  }

  Loaded LoadMeasurement(Entries entries) {
    Loaded loaded;
    size_t num_ranks = 0;
    for (const RecordIndex::Entry& entry : entries) {
      if (ranks_.size() == num_ranks) ranks_.emplace_back();
      std::string reason = reader_.Load(entry, &ranks_[num_ranks]);
      if (reason.empty()) reason = stream_.why_unusable_(ranks_[num_ranks]);
      if (reason.empty()) {
        ++num_ranks;
      } else {
        loaded.rejected.emplace_back(&entry, std::move(reason));
      }
    }
    if (num_ranks == 0) return loaded;
    if (measurements_.size() == num_taken_) measurements_.emplace_back();
    Measurement* const measurement = &measurements_[num_taken_++];
    CombineRanks(std::span(ranks_).first(num_ranks), measurement);
    loaded.measurement = measurement;
    loaded.num_records = static_cast<int64_t>(num_ranks);
    return loaded;
  }

  const MeasurementStream& stream_;
  RecordReader reader_;
  std::vector<bench::Record> ranks_;  // of the measurement last loaded
  std::deque<Measurement> measurements_;
  size_t num_taken_ = 0;                                                  // of measurements_
  std::vector<std::pair<const Measurement*, const Measurement*>> items_;  // with their baselines
  Rejected rejected_;
  int64_t num_records_ = 0;
  int64_t cells_without_baseline_ = 0;
};

MeasurementStream::MeasurementStream(RecordIndex* index, const BaselineOf& baseline_of,
                                     WhyUnusable why_unusable)
    : index_(*index), why_unusable_(std::move(why_unusable)) {
  for (const std::string& experiment : index_.experiments()) {
    baseline_names_.push_back(baseline_of(experiment));
  }
}

std::vector<MeasurementStream::Batch> MeasurementStream::CutIntoBatches() const {
  std::vector<Batch> batches;
  Batch batch;
  size_t bytes = 0;
  Entries rest = index_.entries();
  while (!rest.empty()) {
    const size_t cell_begin = batch.end;
    Entries cell = TakeCell(&rest);
    while (!cell.empty()) {
      if (bytes == 0) batch.cell_begin = cell_begin;
      const Entries measurement = TakeMeasurement(&cell);
      for (const RecordIndex::Entry& entry : measurement) bytes += entry.length;
      batch.end += measurement.size();
      if (bytes < kBatchBytes) continue;
      batches.push_back(batch);
      batch.begin = batch.end;
      bytes = 0;
    }
  }
  if (bytes > 0) batches.push_back(batch);
  return batches;
}

Entries MeasurementStream::BaselineOfCell(Entries cell) const {
  const std::string& wanted = baseline_names_[cell.front().experiment];
  while (!cell.empty()) {
    const Entries measurement = TakeMeasurement(&cell);
    if (index_.strategies()[measurement.front().strategy] == wanted) return measurement;
  }
  return {};
}

void MeasurementStream::ForEach(const Use& use) {
  const std::vector<Batch> batches = CutIntoBatches();
  std::vector<std::unique_ptr<Loader>> loaders;
  for (size_t i = 0; i < NumSlots(); ++i) loaders.push_back(std::make_unique<Loader>(*this));
  MakeInOrder(
      batches.size(), [&](size_t batch, size_t slot) { loaders[slot]->Load(batches[batch]); },
      [&](size_t, size_t slot) { loaders[slot]->Take(this, use); });
}

}  // namespace gradsync::tools
