#pragma once

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// Returns a version such as "2.28.9"; empty in a build without NCCL.
std::string NcclVersion();
// Text of the InvalidInput that a build without NCCL throws.
inline constexpr char kWithoutNccl[] =
    "backend nccl: this program was built without NCCL: install libnccl-dev and build it again";

// Makes a process group over NCCL. Ranks are processes or threads, each with its own GPU (`device`).
//
// Collectives run one after the other on one communication stream. A collective starts when the GPU has done
// the work that was on the compute stream when the collective was issued. Work::Wait makes the compute stream
// wait for the end of the collective, and does not block the host. A collective keeps its tensors alive until
// Wait has been called or the GPU has finished the collective; otherwise the device's allocator could reuse
// their memory too early. Intervals are measured with CUDA events, and converted to the host's clock with the
// last anchor, a time read on both clocks (model/tensor/cuda_clock.h). Every Barrier takes a new anchor.
//
// NCCL chooses the order of additions. A sum is bitwise equal on all ranks, but not always in rank order.
//
// A watchdog thread checks for errors which NCCL reports late, and for a collective that does not end within
// the timeout after its start on the GPU. In both cases it aborts the communicator. Then all unfinished and
// later collectives fail with an error that has the first failure as its cause. Until a call of Wait,
// interval or Barrier reports the failure, a rank's compute stream continues with undefined tensors. The
// destructor aborts collectives in flight, and waits for other ranks at most for the timeout.
//
// `first_cause` is ignored. GroupMaker describes the usual errors. This function also throws InvalidInput in
// a build without NCCL, and CollectiveError if NCCL rejects the ranks.
std::unique_ptr<ProcessGroup> MakeNcclGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
