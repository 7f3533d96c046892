#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// Changes what a rank trains, for tests.
using AlterTask = std::function<void(TrainingTask& task)>;

// The main function of the training benchmark, which measures the training steps of several strategies.
// Returns the exit status.
//
// For each setting (batch size, sequence length, ...), the strategies are timed; they take one step each, in
// turn, or with --order=blocks one strategy after the other. All strategies of gradsync train the same copy
// of the model. Then, unless --verify=false, the result of a strategy is compared with that of one process
// that trains on the batches of all ranks. If the result of a strategy that averages is wrong, the program
// fails after all comparisons.
//
// After randomly drawn timed steps of gradsync's strategies, the ranks also compare their gradients with each
// other (or weights, if the strategy divides the optimizer's state). If a strategy that averages leaves them
// different, the program fails at once.
//
// A timed step has the strategy's preparation, forward, backward, synchronisation and optimizer. Before it,
// and not timed, the batch is made, the old gradients are removed, and all ranks wait for each other.
//
// `alter_task` is called once on each rank, before the first step. It gets the task that this rank will
// train.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
