#ifndef GRADSYNC_BENCH_TRAINING_PROGRAM_H_
#define GRADSYNC_BENCH_TRAINING_PROGRAM_H_

#include <functional>

#include "bench/launch/flags.h"
#include "bench/peers/options.h"
#include "bench/training/job.h"
#include "bench/training/memory.h"
#include "bench/training/options.h"
#include "comm/world.h"
#include "model/device.h"

namespace gradsync::bench {

// A program that is one training benchmark. What it refers to must outlive the run.
struct TrainingProgram {
  FlagTable& flags;
  TrainingOptions& options;
  const PeerOptions& peers;
  // Fills in what the flags left out. Throws InvalidInput if they do not fit together, or do not fit the
  // world. Called in every process.
  std::function<void(const comm::World& world)> complete;
  // What the completed options need memory for.
  std::function<TrainingSize()> size;
  // What a rank measures, without its peer program. Throws InvalidInput if something the flags name cannot be
  // used.
  std::function<TrainingTask(const comm::World& world, const model::DevicePtr& device)> make_task;
};

// The main function of such a program: RunRankProgram's, after a look at whether this host has the memory and
// PyTorch, where it is wanted. Returns the exit status.
int RunTrainingProgram(int argc, char** argv, const TrainingProgram& program);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_PROGRAM_H_
