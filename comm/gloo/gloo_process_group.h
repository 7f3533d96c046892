#pragma once

#include <memory>

#include "comm/gloo/gloo_collectives.h"
#include "comm/group_options.h"

namespace gradsync::comm {

// Makes the process group of backend "gloo" or "gloo_own", which communicates over gloo's TCP transport.
// Backend "gloo" uses the algorithms of gloo_collectives.h over gloo's connections; short all-reduces and
// barriers may use connections of ShortMessages instead. options.num_threads communication threads run the
// collectives, so several collectives can progress at one time. A thread that calls Work::Wait may itself run
// a short collective on CPU tensors that was issued with Waits::kAtOnce. In a group of several ranks, gloo
// has one more thread, which receives messages and sends some of them.
//
// A collective fails if a wait for a message takes longer than the shortest options.timeout of the ranks, or
// if a connection breaks. All unfinished and later collectives of this group then fail on this rank. Their
// errors name the rank that failed first, if that rank is known. This rank closes its connections, so
// collectives of other ranks that still need messages from this rank also fail. The destructor of the process
// group makes unfinished collectives fail, and does not wait for collectives of other ranks. On rank 0, the
// destructor waits up to one second for other ranks if the group is the last owner of World::job.
//
// Collectives on tensors of a GPU copy these tensors through host memory (comm/gloo/cuda_staging.h). A
// collective on tensors of a GPU starts only after the GPU has done the work that was on the compute stream
// (the CUDA stream of the model's computations) when the collective was issued. For a collective on tensors
// of a GPU, Work::Wait blocks the calling thread until the result has been copied to the GPU's memory.
//
// Backend "gloo_own" differs from "gloo" only in its all-reduce, which uses gloo's own ring algorithm
// (RunOwnAllReduce). The comment of GroupMaker (comm/group_options.h) describes the argument `first_cause`
// and the exceptions of MakeGlooGroup.
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause,
                                            const GlooTuning& tuning);

}  // namespace gradsync::comm
