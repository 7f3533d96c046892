#ifndef GRADSYNC_TOOLS_MEASUREMENT_STREAM_H_
#define GRADSYNC_TOOLS_MEASUREMENT_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/record.h"
#include "tools/measurement.h"
#include "tools/record_index.h"

namespace gradsync::tools {

// The measurements of an index, one after the other, each with what it is compared with. At no time are more
// of them in memory than a batch and the baseline of one cell.
class MeasurementStream {
 public:
  struct Item {
    std::shared_ptr<const Measurement> measurement;
    std::shared_ptr<const Measurement> baseline;  // the same, for a baseline itself
  };

  // Why a record cannot be used; empty if it can.
  using WhyUnusable = std::function<std::string(const bench::Record&)>;

  // `baseline`: the strategy to compare with; a cell that lacks it is compared with its first measurement.
  // Keeps the index, which must be finished.
  MeasurementStream(RecordIndex* index, std::string baseline, WhyUnusable why_unusable);

  // Some more, of about 4 MiB of records; none at the end. Records that cannot be used are rejected.
  std::vector<Item> NextBatch();

  int64_t num_records() const { return num_records_; }  // used so far
  int64_t cells_without_baseline() const { return cells_without_baseline_; }

 private:
  using Entries = std::span<const RecordIndex::Entry>;

  void BeginCell();
  std::shared_ptr<const Measurement> Load(Entries measurement);

  RecordIndex& index_;
  const std::string baseline_name_;
  const WhyUnusable why_unusable_;
  Entries rest_;  // not yet begun
  Entries cell_;  // what is left of the cell
  Entries baseline_entries_;
  std::shared_ptr<const Measurement> baseline_;
  int64_t num_records_ = 0;
  int64_t cells_without_baseline_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_MEASUREMENT_STREAM_H_
