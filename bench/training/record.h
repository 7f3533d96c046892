#ifndef GRADSYNC_BENCH_TRAINING_RECORD_H_
#define GRADSYNC_BENCH_TRAINING_RECORD_H_

#include <cstdint>
#include <string>

#include "bench/records/record.h"
#include "bench/training/options.h"
#include "bench/training/trainer.h"
#include "bench/training/verify.h"

namespace gradsync::bench {

// What every training has in its configuration.
void SetTrainingConfig(const TrainingOptions& options, const std::string& variant, int64_t bucket_bytes,
                       Fields& config);

// Adds a timed step. `position`: in the run's own order.
void AddSamples(const StepResult& step, int64_t position, Record& record);

void SetChecks(const Verdict& verdict, Fields& checks);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_RECORD_H_
