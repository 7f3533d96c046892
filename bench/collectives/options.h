#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/launch/rank_options.h"
#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
#include "model/base/flags.h"
#include "model/tensor/dtype.h"

namespace gradsync::bench {

// The values of the flags of //bench:all_reduce, a program that measures collectives.
struct AllReduceOptions {
  RankOptions ranks{.computes = false};
  std::vector<std::string> backends = {"gloo"};
  std::vector<comm::Collective> collectives = {comm::Collective::kAllReduce};
  // Sizes in bytes of the vectors for which collectives are measured, one size after the other. The vector is
  // the whole tensor of all_reduce and broadcast, the input of reduce_scatter, and the output of all_gather.
  std::vector<int64_t> sizes_bytes = {int64_t{1} << 20, int64_t{10} << 20, int64_t{100} << 20,
                                      int64_t{1} << 30};
  std::vector<int64_t> in_flight = {1};
  comm::ReduceOp op = comm::ReduceOp::kSum;
  model::DType dtype = model::DType::kF32;
  int64_t iterations = 20;
  int64_t warmup_iterations = 5;

  void AddTo(FlagTable& flags);
  // Returns the backends for which the benchmark makes process groups of all ranks. The result is `backends`
  // with "shm" in the place of "memory_limit", because a MemoryLimit wraps a process group of "shm".
  std::vector<std::string> GroupBackends() const;
};

// Throws InvalidInput, naming the flag, if a size of --sizes is not a multiple of the size of an element. If
// reduce_scatter or all_gather is measured, each size must be a multiple of the number of ranks times the
// size of an element. Also throws if there are more ranks than MaxExactWorldSize (pattern.h) returns for the
// dtype. --backend=memory_limit needs --collectives=all_reduce, --op=sum, --dtype=f32, --in_flight=1 and at
// most kMaxMemoryLimitRanks ranks; otherwise the function throws.
void CheckAllReduceOptions(const AllReduceOptions& options, const comm::World& world);
// Throws TooLittleMemory if the buffers of this host's ranks need more main memory, by estimate, than
// AvailableMemoryBytes returns. Does not throw if AvailableMemoryBytes returns nullopt.
void CheckAllReduceMemory(const AllReduceOptions& options, const comm::World& world);

}  // namespace gradsync::bench
