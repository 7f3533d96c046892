#pragma once

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// Returns the version of the NCCL library, such as "2.28.9"; empty in a build without NCCL, or if
// ncclGetVersion fails.
std::string NcclVersion();
// Text of the error (InvalidInput) that MakeNcclGroup throws in a build without NCCL.
inline constexpr char kWithoutNccl[] =
    "backend nccl: this program was built without NCCL: install libnccl-dev and build it again";

// Makes a process group whose collectives NCCL runs on GPUs. Ranks are processes or threads, each with its
// own GPU (`device`). Ranks may share a GPU only if MakeProcessGroup makes the group and the environment
// variable GRADSYNC_NCCL_SHARE_GPU is 1.
//
// Collectives run one after the other on one CUDA stream, the communication stream. A collective starts when
// the GPU has done the work that was on the compute stream (the CUDA stream of the model's computations) when
// the collective was issued. Work::Wait makes the compute stream wait for the end of the collective; only the
// Wait of a barrier blocks the calling thread until then. A collective keeps its tensors alive until Wait has
// returned or the GPU has finished the collective, whichever happens first. So work on the compute stream
// reuses the memory of the collective's freed tensors only after the collective has ended. Work::interval
// measures with CUDA events, and converts their times to the host's clock with an anchor: a time read on both
// clocks (model/tensor/cuda_clock.h). Every Barrier reads a new anchor; Work::interval uses the anchor that
// was the newest when the collective was issued.
//
// NCCL chooses the order of additions, which is not always rank order. The result of an all-reduce is bitwise
// equal on all ranks.
//
// A watchdog thread aborts the communicator if NCCL reports an error after a call has returned. The watchdog
// also aborts the communicator if a collective runs on the GPU for longer than the timeout, or if an NCCL
// call that launches a collective blocks for longer than the timeout. After the abort, all unfinished and
// later collectives fail with an error that has the first failure as its cause. The abort does not stop the
// compute stream, which continues with tensors of undefined contents. The program learns of the failure when
// Work::Wait, Work::interval or Barrier throws CollectiveError. The group's destructor aborts collectives in
// flight. Without collectives in flight and without an earlier abort, the destructor waits for the other
// ranks. The destructor's wait ends when these ranks also destroy their groups, or after the timeout.
//
// The argument `first_cause`, with which other backends find the rank that failed first, has no effect.
// MakeNcclGroup throws InvalidInput for bad options or a device that is not a GPU, and in a build without
// NCCL. MakeNcclGroup throws CollectiveError if ranks do not arrive within options.timeout, or if NCCL cannot
// connect the ranks.
std::unique_ptr<ProcessGroup> MakeNcclGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
