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

// An Exercise measures one kind of collective (such as all-reduce) over one backend. An Exercise uses inputs
// whose results are known, so it can also count wrong results. Each rank has an object of this class; all
// ranks must make their objects, and call Prepare and Measure, in the same order.
class Exercise {
 public:
  // `group` is the process group of the measured backend, and must outlive this object. If `is_limit`, a
  // MemoryLimit (a plain all-reduce in shared memory) runs the collectives instead of `group`, so that
  // backends can be compared with it. If `is_limit`, all ranks must be on one host. `pattern` is a CPU tensor
  // with this rank's test input, which FillPattern (pattern.h) has written. `numel` is the number of elements
  // of the whole vector: the tensor of all_reduce and broadcast, the input of reduce_scatter, the output of
  // all_gather. `in_flight` is the number of collectives that a rank issues before it waits for the first of
  // these collectives. Each of the collectives in flight has its own tensors.
  Exercise(comm::RecordingProcessGroup& group, const AllReduceOptions& options, bool is_limit,
           const model::DevicePtr& device, comm::Collective collective, model::Tensor pattern, int64_t numel,
           int64_t in_flight = 1);

  // Copies the constructor's `pattern` into the inputs of the collectives, because earlier collectives may
  // have changed the inputs. Then waits until all ranks have called Prepare.
  void Prepare();
  // Runs `count` rounds: a round issues `in_flight` collectives (the number in the constructor), and waits
  // for all of them. Returns the time of all rounds together, in ns, from the issue of the first collective
  // until the last one is done. The caller must call Prepare before each call of Measure.
  int64_t Measure(PhaseTimer& timer, int64_t count);

  // Returns the number of wrong elements in this rank's outputs. Before CountWrongElements, call Prepare and
  // then Measure with `count` = 1, because a second all-reduce of the same tensors changes their values.
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
