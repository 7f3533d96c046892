#pragma once

#include <memory>

#include "comm/gloo/gloo_collectives.h"
#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a process group over gloo's TCP transport, with our own algorithms (gloo_collectives.h). Ranks are
// processes or, in tests, threads. `num_threads` communication threads run the collectives, so several
// collectives are in flight at one time. gloo has one more thread, which receives messages.
//
// A collective that makes no progress within the timeout, or loses the connection to a peer, fails. All
// unfinished and later collectives then fail immediately, with an error that names the rank that failed first
// if it is known. This rank closes its connections, so the other ranks also fail. The destructor drops
// collectives that have not started, and waits for no other rank.
//
// Tensors of a GPU are copied through host memory (comm/gloo/cuda_staging.h). A collective starts when the
// GPU has done the work that was on the compute stream when the collective was issued. When Wait returns, the
// result is in the GPU's memory.
//
// Backend "gloo_own" differs from "gloo" only in its all-reduce, which is gloo's own ring algorithm
// (RunOwnAllReduce). GroupMaker describes `first_cause` and the errors.
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause,
                                            const GlooTuning& tuning);

}  // namespace gradsync::comm
