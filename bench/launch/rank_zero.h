#ifndef GRADSYNC_BENCH_LAUNCH_RANK_ZERO_H_
#define GRADSYNC_BENCH_LAUNCH_RANK_ZERO_H_

#include <chrono>
#include <functional>

#include "comm/process_group.h"
#include "model/device.h"

namespace gradsync::bench {

// Runs `work` on rank 0; every rank returns when it is done. However long it takes, no rank that waits takes
// rank 0 for dead: a second thread there tells the others that it lives, once in each `period`, which has to
// be well below the group's deadline. `work` must not use the group. Throws what `work` throws, or
// CollectiveError.
void OnRankZero(comm::ProcessGroup& group, const model::DevicePtr& device, std::chrono::milliseconds period,
                const std::function<void()>& work);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RANK_ZERO_H_
