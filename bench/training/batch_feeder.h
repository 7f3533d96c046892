#ifndef GRADSYNC_BENCH_TRAINING_BATCH_FEEDER_H_
#define GRADSYNC_BENCH_TRAINING_BATCH_FEEDER_H_

#include <cstdint>
#include <memory>

#include "bench/training/batch_source.h"
#include "model/model.h"

namespace gradsync::bench {

// Brings a source's batches to the device that trains on them. Sources write host memory; for a GPU the batch
// is made there and copied. The copy is complete on return, so that none of it lies in a timed phase, and
// memory that is not pinned serves as well.
class BatchFeeder {
 public:
  explicit BatchFeeder(std::unique_ptr<BatchSource> source);

  // Overwrites `batch`, on any device, with rank `rank`'s of step `step`. Throws like BatchSource::Fill.
  void Fill(int rank, int64_t step, const model::Batch& batch);

 private:
  const std::unique_ptr<BatchSource> source_;
  const model::DevicePtr host_;  // keeps the memory of a batch for the next one
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_BATCH_FEEDER_H_
