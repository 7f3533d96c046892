#pragma once

#include <memory>

#include "comm/group_options.h"

namespace gradsync::comm {

// Ranks of one host, which reduce in memory that all of them have mapped. CPU tensors only. One communication
// thread, or the thread that waits, runs the collectives in order. Tensors from Allocate are reduced in place
// if the tensors of all ranks lie in one allocation; others are copied through windows.
//
// Ranks always compare every collective before they run it: this costs nothing here.
//
// If a rank does nothing within the timeout, or a peer is lost, the collective fails; all unfinished and
// later collectives fail, as with gloo. The others notice the death of a rank within 50 ms, and its memory is
// freed. An allocation that fails on one rank fails the group, too. A destructor drops collectives that have
// not been started, and never waits for another rank.
//
// See GroupMaker. Throws InvalidInput also for ranks of several hosts.
std::unique_ptr<ProcessGroup> MakeShmGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
