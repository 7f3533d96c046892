#pragma once

#include <memory>

#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a group for ranks of one host, which reduces in memory that all ranks have mapped. CPU tensors only.
// One communication thread, or the thread that waits, runs the collectives in order. Tensors from Allocate
// are reduced in place if the tensors of all ranks are in one allocation; other tensors are copied through
// windows.
//
// Ranks check that all of them run the same collective, each time. Here this needs no additional message.
//
// If a rank does nothing within the timeout, or a peer is lost, the collective fails; all unfinished and
// later collectives fail, as with gloo. Other ranks notice the death of a rank within 50 ms, and the rank's
// memory is freed. If an allocation fails on one rank, the group fails on all ranks. A destructor drops
// collectives that have not been started, and never waits for another rank.
//
// See GroupMaker. Throws InvalidInput also for ranks of several hosts.
std::unique_ptr<ProcessGroup> MakeShmGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
