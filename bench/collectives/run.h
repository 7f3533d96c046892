#ifndef GRADSYNC_BENCH_COLLECTIVES_RUN_H_
#define GRADSYNC_BENCH_COLLECTIVES_RUN_H_

#include "bench/collectives/options.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// The main function of //bench:all_reduce, by RunRankProgram. For each collective and size, over each
// backend, each rank runs an untimed collective that is checked element by element, a warm-up, and the timed
// collectives, and checks the last result. In each iteration all backends take a turn, in a new order
// (bench/timing/schedule.h), so that a machine that becomes slower affects all of them.
//
// A sample of "time_ns" is the time of this rank from leaving a barrier until Wait returns. The input is
// written before each barrier, so it is in the cache, like a newly computed gradient, and sums never
// overflow. A sample of "back_to_back_ns" is, as in nccl-tests, the time of several collectives in a row,
// from one barrier to the end of the last collective, divided by the number of collectives. Ranks do not wait
// for late ranks between these collectives, and the start of a call may overlap with the previous call.
//
// Returns the exit status; 1 also if an element was wrong, after all records have been written.
int RunAllReduceProgram(int argc, char** argv, FlagTable& flags, AllReduceOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_RUN_H_
