#pragma once

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// Returns "2.28.9"; empty in a build without NCCL.
std::string NcclVersion();
// The message of a build without NCCL.
inline constexpr char kWithoutNccl[] =
    "backend nccl: this program was built without NCCL: install libnccl-dev and build it again";

// Makes a group of ranks that are processes or threads, each with its own GPU (`device`), over NCCL.
//
// Collectives run one after the other on one communication stream. Each starts after the work that the
// compute stream had when it was issued, and Work::Wait makes the compute stream wait for its end, so the
// host runs ahead. A collective keeps its tensors until Wait was called or the GPU has passed its end, as the
// device's allocator requires. Intervals come from events on the communication stream, converted to the
// host's clock by the last anchor before the collective was issued (model/tensor/cuda_clock.h). Every Barrier
// takes a new anchor.
//
// NCCL determines the order of a sum: it is bitwise equal on all ranks, but not always in rank order.
//
// A thread checks for errors that NCCL reports late, and for a collective that does not end within the
// timeout after its turn has come. In both cases it aborts the communicator. Then all unfinished and later
// collectives fail with the first cause. Until a call of Wait, interval or Barrier reports the failure, a
// rank's compute stream continues with undefined tensors. The destructor aborts collectives in flight, and
// never waits for another rank longer than the timeout.
//
// See GroupMaker; this group is never a part of a larger group. Throws InvalidInput also in a build without
// NCCL, CollectiveError if NCCL rejects the ranks.
std::unique_ptr<ProcessGroup> MakeNcclGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
