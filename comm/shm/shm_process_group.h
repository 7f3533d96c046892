#pragma once

#include <memory>

#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a process group for ranks of one host, which reduces in memory that all ranks have mapped. CPU
// tensors only. Collectives run in order, on one communication thread or on the thread that waits. Tensors
// are reduced in place if all ranks got theirs from the same call of Allocate; others are copied.
//
// In every collective the ranks check that all of them run the same one, which takes no additional message.
//
// If a rank does nothing within the timeout, or has ended, this collective and all unfinished and later ones
// fail. Other ranks notice the death of a rank within 50 ms, and the rank's memory is freed. If an allocation
// fails on one rank, the process group fails on all ranks. The destructor drops collectives that have not
// been started, and never waits for another rank.
//
// Returns when all ranks are connected. Throws CollectiveError if ranks are missing, and InvalidInput for bad
// options, a device other than the CPU, or ranks of several hosts.
std::unique_ptr<ProcessGroup> MakeShmGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
