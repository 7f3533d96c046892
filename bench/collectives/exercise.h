#ifndef GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_
#define GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/collectives/memory_limit.h"
#include "bench/collectives/options.h"
#include "bench/timing/phase_timer.h"
#include "comm/queue/recording_process_group.h"
#include "model/device.h"
#include "model/tensor.h"

namespace gradsync::bench {

// One collective of this rank over one backend, or several at the same time, on inputs whose result is known.
// All ranks make it, and call all of it, alike.
class Exercise {
 public:
  // `group`: which must outlive it; of the memory's limit that of its ranks. `pattern`: this rank's input, on
  // the host. `numel`: of the whole vector: that of all_reduce and broadcast, what reduce_scatter takes and
  // all_gather gives. `in_flight`: how many are issued before the first is waited for, each on memory of its
  // own.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, comm::Collective collective, model::Tensor pattern, int64_t numel,
           int64_t in_flight = 1);

  // Writes the inputs anew, and lets all ranks meet.
  void Prepare();
  // Takes the time of so many in a row, or so many times all that are in flight. Each but the first works on
  // what the one before it left. To be called after Prepare.
  int64_t TimeOf(PhaseTimer& timer, int64_t count);

  // The elements of this rank's outputs that are not what one run makes of the inputs; the outputs' length.
  int64_t NumWrong() const;
  int64_t num_checked() const { return std::ssize(requests_) * requests_.front().output.numel(); }

 private:
  int64_t NumWrongIn(const model::Tensor& output) const;
  comm::ProcessGroup& measured() { return limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : group_; }

  comm::RecordingProcessGroup& group_;
  std::optional<MemoryLimit> limit_;  // in front of the group, when that is what is measured
  const model::Tensor pattern_;
  const int64_t part_;                   // of each rank
  std::vector<comm::Request> requests_;  // alike
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_EXERCISE_H_
