#ifndef GRADSYNC_BENCH_TRAINING_COMPARE_RUN_H_
#define GRADSYNC_BENCH_TRAINING_COMPARE_RUN_H_

#include "bench/training/compare_options.h"
#include "bench/training/job.h"
#include "comm/world.h"
#include "model/device.h"

namespace gradsync::bench {

// What //bench:compare measures: one model and one batch shape, the strategies with buckets of one size after
// another.
TrainingTask MakeCompareTask(const CompareOptions& options, const comm::World& world,
                             const model::DevicePtr& device);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_COMPARE_RUN_H_
