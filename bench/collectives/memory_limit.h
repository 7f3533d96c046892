#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "comm/process_group.h"
#include "comm/processes/shared_memory.h"

namespace gradsync::bench {

inline constexpr int kMaxMemoryLimitRanks = 16;
// The backend of the group in which the limit is measured, so all ranks are on one host.
inline constexpr char kMemoryLimitGroup[] = "shm";

// Measures the limit that memory sets for the ranks of one host; backends are compared with this limit. A sum
// of f32 is a plain loop: each rank sums its share of all ranks' vectors, in memory that all ranks have
// mapped, and writes the sum to all vectors. There is no other work than the loop and two steps of a spinning
// counter. Only the tensor that was allocated last can be used.
class MemoryLimit : public comm::GroupDecorator {
 public:
  // `group` runs all collectives on other tensors, and must outlive this object.
  MemoryLimit(comm::ProcessGroup& group, std::chrono::milliseconds timeout)
      : GroupDecorator(group), group_(group), timeout_(timeout) {}

  // Throws CollectiveError, or std::runtime_error if the ranks cannot see one another's memory.
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
