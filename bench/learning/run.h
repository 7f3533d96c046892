#ifndef GRADSYNC_BENCH_LEARNING_RUN_H_
#define GRADSYNC_BENCH_LEARNING_RUN_H_

#include "bench/learning/options.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// The main function of //bench:convergence, by RunRankProgram, after a check that this host has enough
// memory. Returns the exit status. Each variant trains a model from each seed, one after the other in an
// order drawn for each seed, and is compared by its loss on held-out text. Each rank writes one record for
// every trial, when the trial has ended.
int RunConvergenceProgram(int argc, char** argv, FlagTable& flags, ConvergenceOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_RUN_H_
