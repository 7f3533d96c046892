#ifndef GRADSYNC_BENCH_TRAINING_OBSERVERS_H_
#define GRADSYNC_BENCH_TRAINING_OBSERVERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/peaks.h"
#include "bench/training/cell.h"
#include "bench/training/options.h"
#include "bench/training/stepper.h"
#include "bench/training/trainer.h"

namespace gradsync::bench {

// A step that a variant has just taken.
struct StepEvent {
  const Stepper& stepper;
  int64_t sample = 0;  // its index among the variant's timed steps; negative: it warmed up
  const StepResult& result;
  // What it did, operation by operation; null if it warmed up, is a peer's, or nobody asked for that.
  OpRecorder* operations = nullptr;
};

// Hears of all that happens in a run on one rank, and makes something of it outside of timed steps.
class Observer {
 public:
  virtual ~Observer() = default;

  // Before the first step. All ranks are here.
  virtual void OnBegin() {}
  virtual void OnStep(const StepEvent& /*event*/) {}
  // All steps of those that take turns have been timed, and on the slowest rank took `steps_ns`. `more` will
  // be added to the variant's record.
  virtual void OnTimed(const Stepper& /*stepper*/, const std::vector<int64_t>& /*steps_ns*/,
                       Record& /*more*/) {}
  // What came of its check.
  virtual void OnChecked(const Stepper& /*stepper*/, const Fields& /*checks*/) {}
  // After everything.
  virtual void OnEnd() {}
};

// Those that the options ask for, which must outlive them, as must the task and the trainer: they write
// traces to the directory `out`; on rank 0 they show progress, print a summary of the steps, and profiles.
// `peak_flops`: this rank's.
std::vector<std::unique_ptr<Observer>> MakeObservers(const TrainingOptions& options, const TrainingTask& task,
                                                     const std::string& out, const std::string& run_id,
                                                     const Peak& peak_flops, Trainer& trainer);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_OBSERVERS_H_
