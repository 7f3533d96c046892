#ifndef GRADSYNC_TOOLS_RECORDS_MEASUREMENT_STREAM_H_
#define GRADSYNC_TOOLS_RECORDS_MEASUREMENT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "tools/records/index.h"
#include "tools/records/measurement.h"

namespace gradsync::tools {

// The measurements of an index, one after the other, each with what it is compared with. Batches of them are
// read in several threads while those before are worked on, and no more than that are in memory.
class MeasurementStream {
 public:
  // Why a record cannot be used; empty if it can. Called in several threads at once.
  using WhyUnusable = std::function<std::string(const bench::Record&)>;

  // The strategy that an experiment's others are compared with.
  using BaselineOf = std::function<std::string(std::string_view experiment)>;

  // What is done with a measurement. `baseline` is the same object for a baseline itself. Both are valid
  // during the call.
  using Use = std::function<void(const Measurement& measurement, const Measurement& baseline)>;

  // A cell that lacks its baseline is compared with its first measurement. Keeps the index, which must be
  // finished.
  MeasurementStream(RecordIndex* index, const BaselineOf& baseline_of, WhyUnusable why_unusable);

  // Calls `use` with each measurement, in this thread and in the order of the index. Records that cannot be
  // used are rejected. Call once.
  void ForEach(const Use& use);

  int64_t num_records() const { return num_records_; }  // used
  int64_t cells_without_baseline() const { return cells_without_baseline_; }

 private:
  using Entries = std::span<const RecordIndex::Entry>;

  // Measurements that follow each other.
  struct Batch {
    size_t cell_begin = 0;  // of the cell that the first one belongs to, in the index's entries
    size_t begin = 0;
    size_t end = 0;
  };

  std::vector<Batch> CutIntoBatches() const;
  // The baseline's entries; empty if the cell lacks it.
  Entries BaselineOfCell(Entries cell) const;

  class Loader;

  RecordIndex& index_;
  std::vector<std::string> baseline_names_;  // by number of the experiment
  const WhyUnusable why_unusable_;
  int64_t num_records_ = 0;
  int64_t cells_without_baseline_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_MEASUREMENT_STREAM_H_
