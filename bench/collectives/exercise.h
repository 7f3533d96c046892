#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/collectives/memory_limit.h"
#include "bench/collectives/options.h"
#include "bench/timing/phase_timer.h"
#include "comm/queue/recording_process_group.h"
#include "model/tensor/device.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {

// Runs one kind of collective (such as all-reduce) over one backend, on inputs whose results are known, so
// that wrong results can be counted. Each rank has an object of this class; all ranks must call the same
// functions in the same order.
class Exercise {
 public:
  // `group` must outlive this object. If `is_limit`, a MemoryLimit runs the collectives instead of `group`,
  // whose ranks must be on one host. `pattern` is a CPU tensor with this rank's input. `numel` is the number
  // of elements of the whole vector: the tensor of all_reduce and broadcast, the input of reduce_scatter, the
  // output of all_gather. `in_flight` is the number of collectives that are issued before the first wait,
  // each on separate memory.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, comm::Collective collective, model::Tensor pattern, int64_t numel,
           int64_t in_flight = 1);

  // Writes `pattern` into the inputs, which earlier collectives may have changed, and waits for all ranks.
  void Prepare();
  // Issues `in_flight` collectives, waits for all of them, and repeats this `count` times. Returns the time
  // in ns. Call Prepare first.
  int64_t Measure(PhaseTimer& timer, int64_t count);

  // Returns the number of wrong elements in this rank's outputs. Call it after Prepare and Measure(timer, 1);
  // after more collectives the expected results are unknown.
  int64_t CountWrongElements() const;
  int64_t num_checked() const { return std::ssize(requests_) * requests_.front().output.numel(); }

 private:
  int64_t CountWrongElementsIn(const model::Tensor& output) const;
  comm::ProcessGroup& measured() { return limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : group_; }

  comm::RecordingProcessGroup& group_;
  std::optional<MemoryLimit> limit_;  // wraps the group if the memory limit is measured
  const model::Tensor pattern_;

  const int64_t part_;
  std::vector<comm::Request> requests_;  // equal requests on separate memory
};

}  // namespace gradsync::bench
