#ifndef GRADSYNC_BENCH_LEARNING_OPTIONS_H_
#define GRADSYNC_BENCH_LEARNING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "bench/launch/flags.h"
#include "bench/learning/schedule.h"
#include "bench/training/options.h"
#include "comm/rendezvous/world.h"

namespace gradsync::bench {

// What //bench:convergence takes on its command line: the flags of //bench:ddp about the model, batches,
// training, variants and ranks, and these.
struct ConvergenceOptions {
  ConvergenceOptions();

  TrainingOptions training;  // its steps are those of each trial
  std::string corpus;        // see ReadCorpus
  int64_t text_bytes = int64_t{1} << 20;
  int64_t seeds = 5;
  LearningRateSchedule lr_schedule;
  std::string decay = "all";
  std::optional<int64_t> evaluate_every;  // steps; else a twentieth of all
  int64_t held_out_windows = 128;

  std::string save, resume;  // directories of checkpoints; empty: none
  std::optional<int64_t> stop_after;
  bool evaluate = false;

  void AddTo(FlagTable& flags);
  // As TrainingOptions::Complete.
  void Complete(const FlagTable& flags, const comm::World& world);

  int64_t seq_len() const { return training.seq_lens.front(); }
  int64_t batch_size() const { return training.batch_sizes.front(); }
  int64_t accumulation_steps() const { return training.accumulation_steps.front(); }
  // Of step i.
  double LearningRateIn(int64_t i) const {
    return training.learning_rate * lr_schedule.ShareIn(i, training.steps);
  }
  int64_t last_step() const { return stop_after.value_or(training.steps); }
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_OPTIONS_H_
