#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/process_group.h"
#include "comm/processes/shared_memory.h"

namespace gradsync::bench {

inline constexpr int kMaxMemoryLimitRanks = 16;
// The backend of the process group that a MemoryLimit wraps. All ranks of this group must be on one host.
inline constexpr char kMemoryLimitGroup[] = "shm";

// A process group whose all-reduce adds f32 vectors in shared memory, without copies. With
// --backend=memory_limit, //bench:all_reduce measures this all-reduce. The bandwidth of the host's memory
// limits the speed of this all-reduce. Users can compare the speeds of backends with this speed. Each rank
// maps the vectors of all ranks into its address space. The index range of the vectors is divided about
// equally among the ranks. In a simple loop, each rank adds up all ranks' vectors in its part of the index
// range, and writes the sums into all these vectors. Before and after the loop, ranks wait for each other by
// spinning on counters. The function Issue runs the all-reduce in shared memory if the request's output is
// the tensor that Allocate returned last; it then ignores which collective the request names. Issue passes
// all other requests to the wrapped process group.
class MemoryLimit : public comm::GroupDecorator {
 public:
  // `group` is the wrapped process group, to which Issue passes requests. `group` must outlive this object.
  MemoryLimit(comm::ProcessGroup& group, std::chrono::milliseconds timeout)
      : GroupDecorator(group), group_(group), timeout_(timeout) {}

  // Allocates a tensor whose memory all ranks map. Throws std::system_error on a rank that cannot make, open
  // or map the memory, and CollectiveError if the wrapped process group cannot broadcast the path of the
  // memory's file.
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override;
  // Throws std::runtime_error if this rank waits longer than the constructor's `timeout` for another rank, at
  // the beginning or the end of an all-reduce in shared memory.
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
