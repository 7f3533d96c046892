#ifndef GRADSYNC_BENCH_TRAINING_RECORD_H_
#define GRADSYNC_BENCH_TRAINING_RECORD_H_

#include <cstdint>

#include "bench/records/record.h"
#include "bench/training/options.h"
#include "bench/training/trainer.h"
#include "bench/training/verify.h"

namespace gradsync::bench {

// What a record says of its variant, and what every training has in its configuration.
void SetTrainingConfig(const TrainingOptions& options, const Variant& variant, Record& record);

// The samples and moments of a timed step. `position`: in the launch's own order.
Record SamplesOf(const StepResult& step, int64_t position);

void SetChecks(const Verdict& verdict, Fields& checks);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_RECORD_H_
