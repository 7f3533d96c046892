#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// A function that changes the task of a rank.
using AlterTask = std::function<void(TrainingTask& task)>;

// The main function of the training benchmark. The function checks that this host has enough memory and, if
// requested, PyTorch, and calls RunRankProgram. Returns the exit status.
//
// In each setting all variants train one replica of the model in turn, step by step, and are timed. Records
// are written after each round. Then each variant is compared with a single process that trains on the
// batches of all ranks. If an exact or lossy variant was wrong, the rank fails after the checks of all
// variants. If a check after a randomly drawn timed step finds different gradients on the ranks, the rank
// fails immediately.
//
// A timed step has the strategy's preparation, forward, backward, synchronisation and optimizer. Making the
// batch, placing gradients, and a barrier of all ranks are not timed. Checks start from the initial weights,
// because replicas under `none` diverge.
//
// `alter_task` is called once, before ranks join groups.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
