#pragma once

#include <functional>

#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// A function by which a test changes the task of a rank: its model, its batches or its settings.
using AlterTask = std::function<void(TrainingTask& task)>;

// The common main function of //bench:ddp and //bench:compare, two programs that measure the training steps
// of several strategies. Returns the exit status.
//
// For each setting (batch size, sequence length, ...), the program times the strategies. With
// --order=interleaved (the default), every strategy takes one turn in each round. With --order=blocks, one
// strategy takes all its turns before the next strategy begins. For most strategies a turn is one training
// step. Each rank has one model object, which all strategies of gradsync train.
//
// After the timed training steps, the program checks the results of the strategies, unless --verify=false.
// The check compares a strategy's gradients with those of one process that trains on the batches of all
// ranks, and its new weights with those that the optimizer computes from the strategy's own gradients. A
// strategy of gradsync that compresses gradients, or averages weights only every few steps, is compared with
// the equation in its paper instead. Strategies of PyTorch whose ranks do not update their weights with the
// mean gradient of all ranks are not checked. In training on images in bf16, the program checks no strategy
// of PyTorch. The strategy `none`, which does not communicate, may fail the check of its results. If any
// other strategy fails the check, the program exits with an error after its last measurement.
//
// After some timed turns of gradsync's strategies, which the program draws at random, the ranks compare their
// gradients with each other. If the strategy divides the optimizer's state among ranks, the ranks compare
// their weights instead of their gradients. If the compared gradients or weights differ between ranks, the
// program ends immediately with an error, unless the strategy lets the ranks' weights differ by design.
//
// The time of a step covers Strategy::BeginStep, forward, backward, synchronisation and optimizer. Before
// each turn (one or a few training steps of one strategy), the ranks make their batches, remove old
// gradients, and wait for each other. The time of a step does not include this preparation.
//
// Before its first step, each rank passes its task (model, batches and settings) to `alter_task`, which may
// change the task.
int RunTrainingProgram(int argc, char** argv, FlagTable& flags, TrainingOptions& options,
                       const AlterTask& alter_task = {});

}  // namespace gradsync::bench
