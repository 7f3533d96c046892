#ifndef GRADSYNC_COMM_NCCL_NCCL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_NCCL_NCCL_PROCESS_GROUP_H_

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// "2.28.9"; empty in a build without NCCL.
std::string NcclVersion();
// What such a build says.
inline constexpr char kWithoutNccl[] =
    "backend nccl: this program was built without NCCL: install libnccl-dev and build it again";

// Ranks that are processes or threads, each with a GPU of its own, over NCCL. `device` is that GPU.
//
// Collectives run one after the other on one stream beside the compute stream. Each starts after what the
// compute stream held when it was issued, and Work::Wait makes the compute stream wait for its end, so the
// host runs ahead. A collective keeps its tensors until Wait was called or the GPU has passed its end: what
// the device's allocator asks for. Intervals are from events on the communication stream, put on the host's
// clock by the anchor that was the last when the collective was issued (model/cuda_clock.h); every Barrier
// takes a new one.
//
// A sum's order is NCCL's: bitwise the same on all ranks, but not always the order of ranks.
//
// A thread watches for errors that NCCL reports late, and for a collective whose turn has come and that does
// not end within the timeout. Either aborts the communicator; whatever was unfinished, or comes later, fails
// with the first cause. Until a rank hears of it, by Wait, interval or Barrier, its compute stream goes on
// with undefined tensors. The destructor aborts what is in flight, and never waits for another rank longer
// than the timeout.
//
// See GroupMaker; it is never a part. Throws InvalidInput too in a build without NCCL, CollectiveError if
// NCCL refuses.
std::unique_ptr<ProcessGroup> MakeNcclGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_NCCL_NCCL_PROCESS_GROUP_H_
