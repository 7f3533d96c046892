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

// Runs one collective over one backend, or several at one time, on inputs with known results. All ranks must
// make equal objects and calls.
class Exercise {
 public:
  // `group` must outlive this object; to measure the memory limit, pass the group of the ranks on this host.
  // `pattern` is this rank's input, on the host. `numel` is the number of elements of the whole vector: the
  // tensor of all_reduce and broadcast, the input of reduce_scatter, the output of all_gather. `in_flight` is
  // the number of collectives that are issued before the first wait, each on separate memory.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, comm::Collective collective, model::Tensor pattern, int64_t numel,
           int64_t in_flight = 1);

  // Writes the inputs again, and waits for all ranks.
  void Prepare();
  // Measures `count` consecutive groups of `in_flight` collectives. Each collective except the first works on
  // the result of the previous collective. Call Prepare before this function.
  int64_t Measure(PhaseTimer& timer, int64_t count);

  // After Prepare and Measure(timer, 1): CountWrongElements returns the number of wrong elements of this
  // rank's outputs. The next function returns the number of all elements of these outputs.
  int64_t CountWrongElements() const;
  int64_t num_checked() const { return std::ssize(requests_) * requests_.front().output.numel(); }

 private:
  int64_t CountWrongElementsIn(const model::Tensor& output) const;
  comm::ProcessGroup& measured() { return limit_ ? static_cast<comm::ProcessGroup&>(*limit_) : group_; }

  comm::RecordingProcessGroup& group_;
  std::optional<MemoryLimit> limit_;  // wraps the group if the memory limit is measured
  const model::Tensor pattern_;
  const int64_t part_;                   // number of elements of each rank's part
  std::vector<comm::Request> requests_;  // equal requests on separate memory
};

}  // namespace gradsync::bench
