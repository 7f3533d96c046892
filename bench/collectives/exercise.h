#ifndef GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_
#define GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_

#include <cstdint>

#include "comm/process_group.h"
#include "model/tensor.h"

namespace gradsync::bench {

// What is measured: a collective on vectors of one size.
struct ExerciseSpec {
  comm::Collective collective = comm::Collective::kAllReduce;
  comm::ReduceOp op = comm::ReduceOp::kSum;
  model::DType dtype = model::DType::kF32;
  // Of the whole vector: that of all_reduce and broadcast, what reduce_scatter takes and all_gather gives.
  // For the last two a multiple of the world's size.
  int64_t numel = 0;
};

// One rank's part of it, on inputs whose result is known. All ranks make it, and call all of it, alike.
class Exercise {
 public:
  Exercise(comm::ProcessGroup& group, const model::DevicePtr& device, const ExerciseSpec& spec);

  // Writes the inputs anew. Run after Run works on what the first one left.
  void Fill();
  // Once, to its end.
  void Run();
  // The elements of this rank's output that are not what one run makes of the inputs; the output's length.
  int64_t CountWrong() const;
  int64_t num_checked() const { return output_.numel(); }

 private:
  comm::ProcessGroup& group_;
  const ExerciseSpec spec_;
  model::Tensor pattern_;  // on the host
  model::Tensor input_;
  model::Tensor output_;  // the input itself, for those that work in place
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_
