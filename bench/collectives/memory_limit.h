#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/process_group.h"
#include "comm/processes/shared_memory.h"

namespace gradsync::bench {

inline constexpr int kMaxMemoryLimitRanks = 16;
// The backend that MemoryLimit uses for collectives other than its own all-reduce.
inline constexpr char kMemoryLimitGroup[] = "shm";

// A process group for --backend=memory_limit of the benchmark //bench:all_reduce. Its all-reduce adds f32
// vectors of at most 16 ranks in shared memory. Users compare the speed of other backends with the speed of
// this all-reduce, which the bandwidth of the host's memory limits.
class MemoryLimit : public comm::GroupDecorator {
 public:
  // `group` runs the collectives other than the all-reduce in shared memory. `group` must outlive the
  // MemoryLimit.
  MemoryLimit(comm::ProcessGroup& group, std::chrono::milliseconds timeout)
      : GroupDecorator(group), group_(group), timeout_(timeout) {}

  // Allocates a tensor whose memory all ranks can read and write. All ranks must call Allocate. Throws
  // std::system_error if the operating system refuses the memory.
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override;
  // If the request's output is the tensor that Allocate returned last, Issue runs an all-reduce of the ranks'
  // tensors, whatever collective the request names. Issue passes all other requests to the constructor's
  // `group`. Throws std::runtime_error if this rank waits longer than `timeout` for another rank's part of
  // the all-reduce.
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
