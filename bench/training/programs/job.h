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
// For each batch size and sequence length, all strategies train the same copy of the model in turn, one step
// each, and their steps are timed. Then the result of each strategy is compared with that of one process that
// trains on the batches of all ranks. If the result of a strategy that averages is wrong, the program fails
// after all comparisons. If ranks have different gradients after a timed step (randomly drawn steps are
// checked), the program fails at once.
//
// A timed step has the strategy's preparation, forward, backward, synchronisation and optimizer. Before it,
// and not timed, the batch is made, the old gradients are removed, and all ranks wait for each other.
//
// `alter_task` is called once on each rank, before the first step.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
