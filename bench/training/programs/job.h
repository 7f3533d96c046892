#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// A function with which a test changes a rank's task (its model, batches or settings) before the first step.
using AlterTask = std::function<void(TrainingTask& task)>;

// The main function of the programs //bench:ddp and //bench:compare, which time the training steps of several
// strategies. Returns the exit status.
//
// The strategies are timed in turns. For most strategies a turn is one training step. With
// --order=interleaved (the default), all strategies take one turn before any strategy takes its second turn.
// With --order=blocks, one strategy takes all its turns before the next strategy begins. The time of a step
// covers Strategy::BeginStep, forward, backward, synchronisation and optimizer. The time of a step does not
// include making the batches.
//
// After the timed steps, the program checks the results of most strategies, unless --verify=false. The
// expected gradients of a strategy are usually those of one process that trains on the batches of all ranks.
// For a strategy of gradsync that compresses gradients, the expected gradients are computed by the equation
// in the strategy's paper. The expected new weights are usually those that the optimizer computes from the
// strategy's own gradients. If a check fails, the program exits with an error, except for the strategy
// `none`, which does not communicate.
//
// The program draws some timed turns of each gradsync strategy at random. After each drawn turn, the ranks
// compare their gradients or weights with each other. If gradients or weights differ between ranks, the
// program usually ends immediately with an error.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
