#ifndef GRADSYNC_BENCH_TRAINING_PLAN_H_
#define GRADSYNC_BENCH_TRAINING_PLAN_H_

#include "bench/launch/flags.h"
#include "bench/training/options.h"

namespace gradsync::bench {

// The main function of //bench:plan: writes the plan of every variant in a world of --world_size ranks, as a
// record of rank 0, without the others: what it sends is not sent. A variant takes two steps, because some
// agree on their buckets in the first. The floor's steps are timed, as those of a rank that has this host for
// itself: they say when gradients are ready. Returns the exit status.
int RunPlanProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_PLAN_H_
