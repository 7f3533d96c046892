#ifndef GRADSYNC_BENCH_DDP_RUN_H_
#define GRADSYNC_BENCH_DDP_RUN_H_

#include <memory>

#include "bench/ddp_options.h"
#include "bench/rank_main.h"
#include "comm/world.h"

namespace gradsync::bench {

// One rank's part of //bench:ddp: in each cell all strategies train one replica of the model, step by step,
// and are timed; then each one is compared with a single process that trains on the whole batch; then its
// record is written.
//
// A step is forward, backward, synchronisation and optimizer. Outside of it, untimed: making the batch,
// putting gradients to their places, a barrier of all ranks. With `none` replicas drift apart, which costs no
// time and which no other strategy's check sees: checks start again from the initial weights.
//
// The options must outlive the job. Run throws std::runtime_error, after all records have been written, if a
// strategy other than `none` was wrong.
std::unique_ptr<RankJob> MakeDdpJob(const DdpOptions& options, const comm::World& world, int argc,
                                    const char* const* argv);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_DDP_RUN_H_
