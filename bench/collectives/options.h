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

// The command line of //bench:all_reduce.
struct AllReduceOptions {
  RankOptions ranks{.computes = false};
  std::vector<std::string> backends = {"gloo"};
  std::vector<comm::Collective> collectives = {comm::Collective::kAllReduce};
  // Sizes of the whole vector in bytes; the whole vector is the input of reduce_scatter or the output of
  // all_gather. "MB" in the published tables means MiB.
  std::vector<int64_t> sizes_bytes = {int64_t{1} << 20, int64_t{10} << 20, int64_t{100} << 20,
                                      int64_t{1} << 30};
  std::vector<int64_t> in_flight = {1};
  comm::ReduceOp op = comm::ReduceOp::kSum;
  model::DType dtype = model::DType::kF32;
  int64_t iterations = 20;
  int64_t warmup_iterations = 5;

  void AddTo(FlagTable& flags);
  // Returns the backends of the groups. The ranks of a memory_limit connect over shm.
  std::vector<std::string> GroupBackends() const;
};

// Throws InvalidInput, naming the flag, if a size is not a whole number of elements, or if the sums of so
// large a world cannot be checked exactly.
void CheckAllReduceOptions(const AllReduceOptions& options, const comm::World& world);
// Throws TooLittleMemory if this host has too little free memory.
void CheckAllReduceMemory(const AllReduceOptions& options, const comm::World& world);

}  // namespace gradsync::bench
