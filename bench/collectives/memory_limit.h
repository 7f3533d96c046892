#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/process_group.h"
#include "comm/processes/shared_memory.h"

namespace gradsync::bench {

inline constexpr int kMaxMemoryLimitRanks = 16;
// The backend of the process group that a MemoryLimit wraps in //bench:all_reduce.
inline constexpr char kMemoryLimitGroup[] = "shm";

// A process group for --backend=memory_limit of the benchmark //bench:all_reduce. Its all-reduce adds f32
// vectors of at most 16 ranks in shared memory. Users compare other backends with this all-reduce, whose
// speed for large vectors is limited by the bandwidth of the host's memory.
class MemoryLimit : public comm::GroupDecorator {
 public:
  // `group` runs all collectives except the MemoryLimit's own all-reduce, and must outlive the MemoryLimit.
  MemoryLimit(comm::ProcessGroup& group, std::chrono::milliseconds timeout)
      : GroupDecorator(group), group_(group), timeout_(timeout) {}

  // Returns a tensor of this rank alone, in memory that all ranks can read and write. All ranks must call
  // Allocate with equal shape and dtype. Throws std::system_error if the operating system cannot make, open
  // or map the shared memory or, from Linux 5.14 on, cannot allocate this rank's part. Throws CollectiveError
  // if another rank does not complete Allocate within the timeout of `group`.
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override;
  // If the request's output is the tensor that Allocate returned last, Issue sums all ranks' tensors,
  // whatever collective or operation the request names. Issue passes all other requests to the constructor's
  // `group`. Throws std::runtime_error if this rank waits longer than `timeout` until all ranks have begun
  // the all-reduce, or have added their parts.
  comm::Work Issue(comm::Request request) override;

 private:
  std::atomic<int64_t>& turns(int rank) const;
  void WaitForAll();

  comm::ProcessGroup& group_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<comm::SharedMemory> memory_;
  int64_t num_turns_ = 0;
};

}  // namespace gradsync::bench
