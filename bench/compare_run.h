#ifndef GRADSYNC_BENCH_COMPARE_RUN_H_
#define GRADSYNC_BENCH_COMPARE_RUN_H_

#include "bench/compare_options.h"
#include "bench/training_job.h"
#include "comm/world.h"
#include "model/device.h"

namespace gradsync::bench {

// What //bench:compare measures: one model and one batch shape, the strategies with buckets of one size after
// another.
//
// `argv0`: of this program, to find that of its peers, if the options want any.
TrainingTask MakeCompareTask(const CompareOptions& options, const comm::World& world,
                             const model::DevicePtr& device, const char* argv0);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_COMPARE_RUN_H_
