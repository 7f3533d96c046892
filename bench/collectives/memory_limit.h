#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/process_group.h"
#include "comm/processes/shared_memory.h"

namespace gradsync::bench {

inline constexpr int kMaxMemoryLimitRanks = 16;
// The backend through which the ranks of a MemoryLimit connect. It requires that all ranks are on one host.
inline constexpr char kMemoryLimitGroup[] = "shm";

// An all-reduce in shared memory that does as little as possible. Its speed is the limit that memory sets for
// the ranks of one host, and backends are compared with this limit. All ranks map the vectors of all ranks.
// Each rank adds an equal share of the elements of these vectors (f32) in a plain loop, and writes the sums
// into all vectors. Before and after the loop, ranks wait for each other by spinning on counters. This works
// only on the tensor that was allocated last; collectives on other tensors are passed to the wrapped group.
class MemoryLimit : public comm::GroupDecorator {
 public:
  // `group` must outlive this object.
  MemoryLimit(comm::ProcessGroup& group, std::chrono::milliseconds timeout)
      : GroupDecorator(group), group_(group), timeout_(timeout) {}

  // Allocates a tensor whose memory all ranks map. Throws CollectiveError, or std::runtime_error if a rank
  // cannot open the memory that rank 0 made.
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override;
  // Throws std::runtime_error if a rank does not arrive within the timeout.
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
