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
// The program times the strategies in turns; for most strategies, a turn is one training step. With
// --order=interleaved (the default), all strategies take one turn before any strategy takes its second turn.
// With --order=blocks, one strategy takes all its turns in a setting (batch size, ...) before the next
// strategy begins. The time of a step covers Strategy::BeginStep, forward, backward, synchronisation and
// optimizer. The time of a step does not include making the batches.
//
// After a strategy's timed steps in a setting, the program checks the strategy's results, unless
// --verify=false. Some of PyTorch's strategies are not checked. The expected gradients are those of one
// process that trains on the batches of all ranks. For a gradsync strategy that compresses gradients,
// Traits::reference computes the expected gradients instead. The expected new weights are those that the
// optimizer computes from the strategy's own gradients. For gradsync strategies that average weights, the
// program checks only the new weights, against those that Traits::reference computes. If a check fails, the
// program exits with an error, except for the strategy `none`, which does not communicate.
//
// The program draws one turn at random from each block of 8 successive timed turns of a gradsync strategy in
// a setting. With --steps below 8, all timed turns are one block. From a last block of fewer turns, the
// program may draw none. After each drawn turn, the ranks compare with each other their weights if the
// strategy shards the optimizer's state, else their gradients. If these weights or gradients differ between
// ranks, the program ends immediately with an error, unless Traits::agreement of the strategy is kDrifts.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
