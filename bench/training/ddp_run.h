#ifndef GRADSYNC_BENCH_TRAINING_DDP_RUN_H_
#define GRADSYNC_BENCH_TRAINING_DDP_RUN_H_

#include "bench/training/ddp_options.h"
#include "bench/training/job.h"
#include "comm/world.h"
#include "model/device.h"

namespace gradsync::bench {

// What //bench:ddp measures: a transformer with all strategies in each cell, buckets of one size. Only rank 0
// reads the weights' file. Throws InvalidInput if it does not fit the model.
TrainingTask MakeDdpTask(const DdpOptions& options, const comm::World& world, const model::DevicePtr& device);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_DDP_RUN_H_
