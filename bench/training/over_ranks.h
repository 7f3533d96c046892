#ifndef GRADSYNC_BENCH_TRAINING_OVER_RANKS_H_
#define GRADSYNC_BENCH_TRAINING_OVER_RANKS_H_

#include <cstdint>
#include <vector>

#include "comm/process_group.h"
#include "model/device.h"

// Numbers of all ranks, which each has as many of. All ranks call.
namespace gradsync::bench {

// The maximum over ranks of each of them.
std::vector<int64_t> MaxOverRanks(const std::vector<int64_t>& numbers, comm::ProcessGroup& group,
                                  const model::DevicePtr& device);

// Those of every rank, one rank after the other.
std::vector<int64_t> GatherOverRanks(const std::vector<int64_t>& numbers, comm::ProcessGroup& group,
                                     const model::DevicePtr& device);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_OVER_RANKS_H_
