#ifndef GRADSYNC_COMM_SHM_SHM_PROCESS_GROUP_H_
#define GRADSYNC_COMM_SHM_SHM_PROCESS_GROUP_H_

#include <chrono>
#include <memory>

#include "comm/queue/request_queue.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

struct ShmOptions {
  World world;
  std::chrono::milliseconds timeout{60000};
  // The first cause of the larger group that this one is a part of; null: this group has its own.
  std::shared_ptr<FirstCause> first_cause = nullptr;
};

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
// Returns when all ranks share memory. Throws InvalidInput for bad options and for ranks of several hosts,
// CollectiveError if ranks are missing.
std::unique_ptr<QueueGroup> MakeShmGroup(const ShmOptions& options);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_SHM_SHM_PROCESS_GROUP_H_
