#ifndef GRADSYNC_BENCH_COLLECTIVES_RUN_H_
#define GRADSYNC_BENCH_COLLECTIVES_RUN_H_

#include "bench/collectives/options.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// The main function of //bench:all_reduce, RunRankProgram's. Each rank: for each collective and size, over
// each backend, an untimed one that is checked element by element, warm-up, the timed ones, and a check of
// the last of these. In each iteration all backends take a turn, in an order of its own
// (bench/timing/schedule.h): a machine that becomes slower then does so for all of them.
//
// A sample of "time_ns" is the time of this rank from leaving a barrier until Wait returned. The input is
// filled before each barrier, so it is as warm in the cache as a gradient that has just been computed, and
// sums never overflow. A sample of "back_to_back_ns" is, as in nccl-tests, the time of several in a row
// between one barrier and the end of the last, by their number: ranks that are late for one are not waited
// for, and what a call costs before it moves data may lie in the time of the one before it.
//
// Returns the exit status; 1 too, after all records have been written, if an element was wrong.
int RunAllReduceProgram(int argc, char** argv, FlagTable& flags, AllReduceOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COLLECTIVES_RUN_H_
