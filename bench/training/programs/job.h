#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// For tests: a function that changes what a rank trains.
using AlterTask = std::function<void(TrainingTask& task)>;

// The main function of //bench:ddp and //bench:compare, which measures the training steps of several
// strategies. Returns the exit status.
//
// In each setting (batch size, sequence length, ...), the strategies are timed: in each round all of them
// take one turn (mostly one step), or with --order=blocks one strategy takes all its turns before the next.
// On each rank, all strategies of gradsync train the same copy of the model.
//
// Then, unless --verify=false, the gradients and weights of a strategy are compared with those of one process
// that trains on the batches of all ranks. For a strategy that compresses gradients, or averages weights only
// every few steps, they are compared with the equation in its paper. Some of PyTorch's strategies are not
// compared. If a result is wrong, and not by design (as without communication), the program fails after all
// measurements.
//
// After randomly drawn timed turns of gradsync's strategies, the ranks also compare their gradients with each
// other (or weights, if the strategy divides the optimizer's state). If these differ, the program fails at
// once, unless the strategy lets weights of ranks differ by design.
//
// A timed step has Strategy::BeginStep, forward, backward, synchronisation and optimizer. Before each turn,
// and not timed, the batch is made, the old gradients are removed, and all ranks wait for each other.
//
// `alter_task` is called once on each rank of each launch, before the first step, with the task that this
// rank will train.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
