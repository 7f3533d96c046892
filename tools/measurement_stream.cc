#include "tools/measurement_stream.h"

#include <utility>

namespace gradsync::tools {
namespace {

constexpr size_t kBatchBytes = size_t{4} << 20;

using Entries = std::span<const RecordIndex::Entry>;

Entries TakeCell(Entries* entries) {
  return TakeGroup(entries, [](const auto& a, const auto& b) { return a.cell == b.cell; });
}

Entries TakeMeasurement(Entries* entries) {
  return TakeGroup(entries, [](const auto& a, const auto& b) { return a.measurement == b.measurement; });
}

}  // namespace

MeasurementStream::MeasurementStream(RecordIndex* index, const BaselineOf& baseline_of,
                                     WhyUnusable why_unusable)
    : index_(*index), why_unusable_(std::move(why_unusable)), rest_(index->entries()) {
  for (const std::string& experiment : index_.experiments()) {
    baseline_names_.push_back(baseline_of(experiment));
  }
}

void MeasurementStream::BeginCell() {
  cell_ = TakeCell(&rest_);
  Entries rest = cell_;
  const std::string& wanted = baseline_names_[cell_.front().experiment];
  baseline_entries_ = {};
  while (!rest.empty() && baseline_entries_.empty()) {
    const Entries measurement = TakeMeasurement(&rest);
    if (index_.strategies()[measurement.front().strategy] == wanted) baseline_entries_ = measurement;
  }
  if (baseline_entries_.empty()) {
    const bool has_strategies = !index_.strategies()[cell_.front().strategy].empty();
    if (has_strategies) ++cells_without_baseline_;
    rest = cell_;
    baseline_entries_ = TakeMeasurement(&rest);
  }
  baseline_ = Load(baseline_entries_);
}

std::vector<MeasurementStream::Item> MeasurementStream::NextBatch() {
  std::vector<Item> batch;
  size_t bytes = 0;
  while (bytes < kBatchBytes && !(cell_.empty() && rest_.empty())) {
    if (cell_.empty()) BeginCell();
    const Entries entries = TakeMeasurement(&cell_);
    for (const RecordIndex::Entry& entry : entries) bytes += entry.length;
    const bool is_baseline = entries.data() == baseline_entries_.data();
    std::shared_ptr<const Measurement> measurement = is_baseline ? baseline_ : Load(entries);
    if (measurement == nullptr) continue;
    // Where the baseline's own records are spoilt, the next measurement takes its place.
    if (baseline_ == nullptr) baseline_ = measurement;
    batch.push_back({std::move(measurement), baseline_});
  }
  return batch;
}

std::shared_ptr<const Measurement> MeasurementStream::Load(Entries measurement) {
  size_t num_ranks = 0;
  for (const RecordIndex::Entry& entry : measurement) {
    if (ranks_.size() == num_ranks) ranks_.emplace_back();
    if (!index_.Load(entry, &ranks_[num_ranks])) continue;
    std::string reason = why_unusable_(ranks_[num_ranks]);
    if (reason.empty()) {
      ++num_ranks;
    } else {
      index_.Reject(entry, std::move(reason));
    }
  }
  num_records_ += static_cast<int64_t>(num_ranks);
  if (num_ranks == 0) return nullptr;
  return std::make_shared<const Measurement>(CombineRanks(std::span(ranks_).first(num_ranks)));
}

}  // namespace gradsync::tools
