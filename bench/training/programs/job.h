#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// A test's function that changes the task of a rank: its model, its batches or its settings.
using AlterTask = std::function<void(TrainingTask& task)>;

// The main function of the programs //bench:ddp and //bench:compare, which time the training steps of several
// strategies. Returns the exit status.
//
// With --order=interleaved (the default), every strategy takes one turn in each round. With --order=blocks,
// one strategy takes all its turns before the next strategy begins. For most strategies a turn is one
// training step. The time of a step covers Strategy::BeginStep, forward, backward, synchronisation and
// optimizer. The time to make the step's batches is not included.
//
// After the timed steps, the program checks the results of most strategies, unless --verify=false. The check
// compares a strategy's gradients with the gradients of one process that trains on the batches of all ranks.
// A strategy that compresses gradients is compared with the equation in the strategy's paper instead. The
// check also compares the new weights with the optimizer's result for the strategy's own gradients. If a
// check fails, the program exits with an error, except for the strategy `none`, which does not communicate.
//
// After some timed turns, drawn at random, the ranks compare their gradients or weights with each other. If
// the ranks differ, the program usually ends immediately with an error.
//
// If a test passes `alter_task`, each rank calls it with its own task before the first step.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
