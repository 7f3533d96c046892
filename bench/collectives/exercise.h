#pragma once

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

// One collective of this rank over one backend, or several at one time, on inputs with known results. All
// ranks make equal objects and calls.
class Exercise {
 public:
  // `group`: must outlive this; for the memory limit, the group of its ranks. `pattern`: this rank's input,
  // on the host. `numel`: elements of the whole vector: the tensor of all_reduce and broadcast, the input of
  // reduce_scatter, the output of all_gather. `in_flight`: collectives that are issued before the first wait,
  // each on separate memory.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, comm::Collective collective, model::Tensor pattern, int64_t numel,
           int64_t in_flight = 1);

  // Writes the inputs again, and waits for all ranks.
  void Prepare();
  // Measures `count` collectives in a row, or `count` times all that are in flight. Each except the first
  // works on the result of the previous one. Call Prepare before.
  int64_t TimeOf(PhaseTimer& timer, int64_t count);

  // Number of wrong elements of this rank's outputs after one run; number of elements.
  int64_t NumWrong() const;
  int64_t num_checked() const { return std::ssize(requests_) * requests_.front().output.numel(); }

 private:
  int64_t NumWrongIn(const model::Tensor& output) const;
  comm::ProcessGroup& measured() { return limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : group_; }

  comm::RecordingProcessGroup& group_;
  std::optional<MemoryLimit> limit_;  // wraps the group if the limit is measured
  const model::Tensor pattern_;
  const int64_t part_;                   // of each rank
  std::vector<comm::Request> requests_;  // equal, on separate memory
};

}  // namespace gradsync::bench
