#ifndef GRADSYNC_BENCH_TRAINING_TASKS_H_
#define GRADSYNC_BENCH_TRAINING_TASKS_H_

#include "bench/training/case.h"
#include "bench/training/compare_options.h"
#include "bench/training/ddp_options.h"
#include "comm/rendezvous/world.h"
#include "model/device.h"

namespace gradsync::bench {

// What //bench:ddp measures: a transformer with all strategies on batches of one shape after another, buckets
// of one size. Only rank 0 reads the weights' file. Throws InvalidInput if it does not fit the model.
TrainingTask MakeTask(const DdpOptions& options, const comm::World& world, const model::DevicePtr& device);

// What //bench:compare measures: one model and one batch shape, the strategies with buckets of one size after
// another.
TrainingTask MakeTask(const CompareOptions& options, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_TASKS_H_
