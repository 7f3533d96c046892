#ifndef GRADSYNC_BENCH_TRAINING_BATCH_SOURCE_H_
#define GRADSYNC_BENCH_TRAINING_BATCH_SOURCE_H_

#include <cstdint>

#include "model/tensor.h"

namespace gradsync::bench {

// Where the batches of a run come from. A batch is a function of the source, the rank and the step: every
// strategy trains on the same data, and one process can make the batches of all ranks.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Fills rank `rank`'s batch of step `step`, which lies on the CPU, in the model's shapes and dtypes. Throws
  // std::runtime_error if a file cannot be read any more.
  virtual void Fill(int rank, int64_t step, const model::Tensor& inputs, const model::Tensor& targets) = 0;
};

// Which of the random streams under a seed fill a batch: this one and the next.
inline uint64_t BatchStream(int rank, int64_t step) {
  return (static_cast<uint64_t>(rank) << 40 | static_cast<uint64_t>(step)) << 1;
}

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_BATCH_SOURCE_H_
