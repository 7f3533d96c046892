#ifndef GRADSYNC_BENCH_TRAINING_TASKS_H_
#define GRADSYNC_BENCH_TRAINING_TASKS_H_

#include "bench/training/cell.h"
#include "bench/training/options.h"
#include "comm/rendezvous/world.h"
#include "model/device.h"

namespace gradsync::bench {

// The model, its batches and a cell for each of their shapes. Only rank 0 reads the weights' file. Throws
// InvalidInput if it does not fit the model.
TrainingTask MakeTask(const TrainingOptions& options, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_TASKS_H_
