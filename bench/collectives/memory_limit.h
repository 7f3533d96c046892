#ifndef GRADSYNC_BENCH_COLLECTIVES_MEMORY_LIMIT_H_
#define GRADSYNC_BENCH_COLLECTIVES_MEMORY_LIMIT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "bench/records/strategy_name.h"
#include "comm/process_group.h"
#include "comm/shm/shared_memory.h"
#include "model/tensor.h"

namespace gradsync::bench {

inline constexpr int kMaxMemoryLimitRanks = 16;

// What memory allows the ranks of one host, to judge backends by: a plain loop in which each rank sums its
// share of everyone's vector, in memory that all of them have mapped, and writes it to all. Nothing but the
// loop and two turns of a counter that spins.
class MemoryLimit {
 public:
  // Every rank calls this, and Run, alike. Vectors of `numel` f32. Throws CollectiveError,
  // std::runtime_error if the ranks cannot see one another's memory.
  MemoryLimit(comm::ProcessGroup& group, const model::DevicePtr& device, int64_t numel,
              std::chrono::milliseconds timeout);

  // This rank's vector.
  const model::Tensor& tensor() const { return tensor_; }
  // Makes every rank's vector the sum of all. Throws std::runtime_error if a rank has not come within the
  // timeout.
  void Run();

 private:
  std::atomic<int64_t>& turns(int rank) const;
  void WaitForAll();

  const int rank_;
  const int size_;
  const int64_t numel_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<comm::SharedMemory> memory_;
  model::Tensor tensor_;
  int64_t num_turns_ = 0;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_MEMORY_LIMIT_H_
