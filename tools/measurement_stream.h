#ifndef GRADSYNC_TOOLS_MEASUREMENT_STREAM_H_
#define GRADSYNC_TOOLS_MEASUREMENT_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

  // The strategy that an experiment's others are compared with.
  using BaselineOf = std::function<std::string(std::string_view experiment)>;

  // A cell that lacks its baseline is compared with its first measurement. Keeps the index, which must be
  // finished.
  MeasurementStream(RecordIndex* index, const BaselineOf& baseline_of, WhyUnusable why_unusable);

  // Some more, of about 4 MiB of records; none at the end. Records that cannot be used are rejected.
  std::vector<Item> NextBatch();

  int64_t num_records() const { return num_records_; }  // used so far
  int64_t cells_without_baseline() const { return cells_without_baseline_; }

 private:
  using Entries = std::span<const RecordIndex::Entry>;

  void BeginCell();
  std::shared_ptr<const Measurement> Load(Entries measurement);

  RecordIndex& index_;
  std::vector<std::string> baseline_names_;  // by number of the experiment
  const WhyUnusable why_unusable_;
  Entries rest_;  // not yet begun
  Entries cell_;  // what is left of the cell
  Entries baseline_entries_;
  std::shared_ptr<const Measurement> baseline_;
  std::vector<bench::Record> ranks_;  // of the measurement last loaded, for their memory
  int64_t num_records_ = 0;
  int64_t cells_without_baseline_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_MEASUREMENT_STREAM_H_
