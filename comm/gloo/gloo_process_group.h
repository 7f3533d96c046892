#pragma once

#include <memory>

#include "comm/gloo/gloo_collectives.h"
#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a group of ranks that are processes (or, in tests, threads), connected by gloo's TCP transport, with
// our own algorithms (gloo_collectives.h). `num_threads` communication threads run the collectives, so
// several collectives are in flight at one time. gloo has one more thread, which receives messages.
//
// A collective that makes no progress within the timeout, or loses a peer, fails. All unfinished and later
// collectives then fail immediately, with the first cause. The connections are closed, so the other ranks
// also fail. A destructor drops collectives that have not been started, and never waits for another rank.
//
// Tensors of a GPU are copied through host memory (comm/gloo/cuda_staging.h): after the compute stream has
// reached the point where the collective was issued. The results are in the GPU's memory when Wait returns.
//
// Backend "gloo_own" all-reduces by gloo's ring (RunOwnAllReduce). See GroupMaker.
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause,
                                            const GlooTuning& tuning);

}  // namespace gradsync::comm
