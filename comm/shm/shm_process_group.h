#ifndef GRADSYNC_COMM_SHM_SHM_PROCESS_GROUP_H_
#define GRADSYNC_COMM_SHM_SHM_PROCESS_GROUP_H_

#include <memory>

#include "comm/group_options.h"

namespace gradsync::comm {

// Ranks of one host, which reduce in memory that all of them have mapped. CPU tensors only. One communication
// thread runs the collectives in order, or the thread that waits for them does. Tensors from Allocate are
// reduced in place, if every rank's lies in the same allocation; others are copied through windows.
//
// Ranks compare every collective before they run it, whatever the environment says: it costs nothing here.
//
// A collective for which a rank does nothing within the timeout, or loses a peer, fails; so do all that are
// unfinished or come later, as with gloo. The others see the death of a rank within 50 ms, and nothing is
// left of its memory. An allocation that fails on one rank fails the group too. A destructor drops what has
// not been started, and never waits for another rank.
//
// See GroupMaker. Throws InvalidInput for ranks of several hosts too.
std::unique_ptr<ProcessGroup> MakeShmGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_SHM_SHM_PROCESS_GROUP_H_
