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

// An all-reduce of f32 sums in shared memory, without copies. //bench:all_reduce can measure it beside the
// backends, for comparison, because the memory of the host limits its speed. Each rank maps the vectors of
// all ranks into its address space. Each rank adds its share of the elements of these vectors, about 1 /
// number of ranks, in a plain loop, and writes the sums into all vectors. Before and after the loop, ranks
// wait for each other by spinning on counters. Issue runs this all-reduce, whatever the kind of the
// collective, if the output is the tensor that was allocated last. It passes all other collectives to the
// wrapped group.
class MemoryLimit : public comm::GroupDecorator {
 public:
  // `group` must outlive this object.
  MemoryLimit(comm::ProcessGroup& group, std::chrono::milliseconds timeout)
      : GroupDecorator(group), group_(group), timeout_(timeout) {}

  // Allocates a tensor whose memory all ranks map. Throws std::system_error on a rank that cannot make, open
  // or map the memory, and CollectiveError if the wrapped group cannot broadcast the memory's path.
  model::Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override;
  // Throws std::runtime_error if a rank does not arrive at the all-reduce in shared memory within the
  // timeout.
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
