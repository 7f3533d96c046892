#ifndef GRADSYNC_COMM_GLOO_GLOO_PROCESS_GROUP_H_
#define GRADSYNC_COMM_GLOO_GLOO_PROCESS_GROUP_H_

#include <memory>

#include "comm/gloo/gloo_collectives.h"
#include "comm/group_options.h"

namespace gradsync::comm {

// Ranks that are processes (or, in tests, threads) connected by gloo's TCP transport, under our own
// algorithms (gloo_collectives.h). `num_threads` communication threads run the collectives, so that many are
// in flight at once; besides them one thread of gloo's receives.
//
// A collective that makes no progress within the timeout, or loses a peer, fails; so do all that are
// unfinished or come later, at once, and with the first one's cause. The connections are closed then, so the
// other ranks fail too. A destructor drops what has not been started, and never waits for another rank.
//
// Tensors of a GPU are taken up when the compute stream has come to where they were issued, travel through
// host memory (comm/gloo/cuda_staging.h), and are back in the GPU's memory when Wait returns.
//
// Backend "gloo_own" all-reduces by gloo's ring (RunOwnAllReduce). See GroupMaker.
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause);
std::unique_ptr<ProcessGroup> MakeGlooGroup(const GroupOptions& options, const model::DevicePtr& device,
                                            std::shared_ptr<FirstCause> first_cause,
                                            const GlooTuning& tuning);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_GLOO_PROCESS_GROUP_H_
