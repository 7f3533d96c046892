#pragma once

#include <memory>

#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a process group of the backend shm: its ranks are on one host, and it reduces CPU tensors in memory
// that all ranks have mapped. On each rank, collectives run in the order of issue, on one communication
// thread or on the thread that calls Work::Wait. An all-reduce works without copies if the ranks' tensors are
// not short (ShmCollectives) and come from the same call of ProcessGroup::Allocate. An all-reduce of other
// tensors copies them.
//
// A collective fails on all ranks if the ranks do not all run the same collective.
//
// If a rank ends before it has done its part of a collective, this collective and all later ones fail on all
// other ranks. If a rank waits longer than the timeout for another rank's part, this collective and all later
// ones fail on the waiting rank. On the other ranks, the next collective fails at the latest. A rank that
// waits in a collective notices within about 50 ms the death of a rank that has not done its part. The system
// frees the shared memory when no process has it mapped any more. If ProcessGroup::Allocate or AllocateShared
// throws CollectiveError on one rank, all unfinished collectives of this rank fail. After this error, all
// later collectives of the process group fail on all ranks. If a rank destroys its process group while
// collectives are unfinished, these collectives fail on this rank, and on each other rank that waits for this
// rank. The process group's destructor does not wait for other ranks to reach a collective.
//
// MakeShmGroup returns when all ranks of options.world are connected. Throws CollectiveError if ranks are
// missing or memory cannot be shared, and InvalidInput for bad options or ranks of several hosts.
// MakeShmGroup ignores `device`; MakeProcessGroup checks that the device is the CPU before it calls
// MakeShmGroup.
std::unique_ptr<ProcessGroup> MakeShmGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
