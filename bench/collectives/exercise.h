#ifndef GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_
#define GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_

#include <cstdint>
#include <optional>

#include "bench/collectives/memory_limit.h"
#include "bench/collectives/options.h"
#include "bench/timing/phase_timer.h"
#include "comm/queue/recording_process_group.h"
#include "model/device.h"
#include "model/tensor.h"

namespace gradsync::bench {

// One collective of this rank over one backend, on inputs whose result is known. All ranks make it, and call
// all of it, alike.
class Exercise {
 public:
  // `group`: which must outlive it; of the memory's limit that of its ranks. `pattern`: this rank's input, on
  // the host. `numel`: of the whole vector: that of all_reduce and broadcast, what reduce_scatter takes and
  // all_gather gives.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, comm::Collective collective, model::Tensor pattern, int64_t numel);

  // Writes the inputs anew, lets all ranks meet, and takes the time of so many in a row. Each but the first
  // works on what the one before it left.
  int64_t TimeOf(PhaseTimer& timer, int64_t count);

  // The elements of this rank's output that are not what one run makes of the inputs; the output's length.
  int64_t NumWrong() const;
  int64_t num_checked() const { return request_.output.numel(); }

 private:
  comm::ProcessGroup& measured() { return limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : group_; }

  comm::RecordingProcessGroup& group_;
  std::optional<MemoryLimit> limit_;  // in front of the group, when that is what is measured
  const model::Tensor pattern_;
  const int64_t part_;  // of each rank
  comm::Request request_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_
