#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// Changes what a rank trains.
using AlterTask = std::function<void(TrainingTask& task)>;

// The main function of the training benchmark: RunRankProgram's, after a look at whether this host has the
// memory and PyTorch, where it is wanted. Returns the exit status.
//
// In each cell all variants train one replica of the model, step by step in turn, and are timed; their
// records are written, round by round; then each one is compared with a single process that trains on the
// batches of all ranks. A rank fails, after that has been done for all of them, if a variant that is not
// meant to drift was wrong; and at once, if after a timed step, drawn at random, ranks have different
// gradients.
//
// A step is the strategy's preparation, forward, backward, synchronisation and optimizer. Outside of it,
// untimed: making the batch, putting gradients to their places, a barrier of all ranks.
// Checks start again from the initial weights, because replicas under `none` drift apart.
//
// `alter_task` is called once, before the groups are joined.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
