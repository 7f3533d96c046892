#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/learning/tuning.h"
#include "bench/training/plan.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// A schedule that multiplies the learning rate by a factor in each step i = 0, 1, ... of a training of n
// steps. In the first w = warmup_steps steps the factor grows: it is (i + 1) / (w + 1). After these steps,
// the factor is 1 if is_cosine is false. If is_cosine is true, the factor falls as half a cosine:
//
//   min + (1 - min) * (1 + cos(pi * (i - w) / (n - w))) / 2
struct LearningRateSchedule {
  bool is_cosine = false;
  int64_t warmup_steps = 0;
  double min = 0;

  bool operator==(const LearningRateSchedule&) const = default;
  double ShareIn(int64_t step, int64_t num_steps) const;
  // Returns the schedule as a text such as "cosine,warmup=100,min=0.1". The text lacks a value `warmup` or
  // `min` that is 0.
  std::string ToString() const;
};

// Returns the Kind (functions that parse and print values) of the flag --lr_schedule, whose value has the
// format of LearningRateSchedule::ToString.
Kind<LearningRateSchedule> LearningRateSchedules();

// The values of the flags of //bench:convergence, a program that trains a language model with each variant (a
// strategy with options); //tools:summarize then compares the losses of variants. `training` has the values
// of the flags that //bench:convergence shares with //bench:ddp.
struct ConvergenceOptions {
  ConvergenceOptions();

  // training.steps is the number of steps of each training of a model. training.corpus is the path of a text
  // file or of a directory; empty for this machine's C++ headers (ReadCorpus).
  TrainingOptions training;
  int64_t text_bytes = int64_t{1} << 20;
  int64_t seeds = 5;
  LearningRateSchedule lr_schedule;
  bool decays_vectors = true;
  std::optional<int64_t> evaluate_every;  // number of steps; by default about a twentieth of all steps
  int64_t held_out_windows = 128;

  std::vector<TunedOption> tune;  // options that are chosen for each variant before its trials
  int64_t tune_seeds = 2;         // number of seeds for tuning; trials use other seeds

  void AddTo(FlagTable& flags);
};

// What //bench:convergence does: `training` lists the variants (strategies with options) that it compares.
// `settings` lists the combinations of option values that it tries for each variant before the comparison.
struct ConvergencePlan {
  // Throws InvalidInput if flags contradict each other, or if a variant cannot be trained with their values.
  ConvergencePlan(const ConvergenceOptions& given, const FlagTable& flags);

  ConvergenceOptions options;
  TrainingPlan training;
  // settings[i] has copies of the variant training.variants[i], one for each combination of option values
  // that --tune tries. If --tune tries no option of training.variants[i], settings[i] has one copy. A lossy
  // strategy may have an option (Role::kStart) for the number of first steps that it averages exactly. If
  // neither the variant nor --tune sets a strategy's option Role::kStart, each copy sets this option to
  // max(1, training.steps / 10).
  std::vector<std::vector<TrainingVariant>> settings;
  int64_t evaluated_every = 0;  // steps

  int64_t seq_len() const { return training.seq_lens.front(); }
  int64_t batch_size() const { return training.batch_sizes.front(); }
  int64_t accumulation_steps() const { return training.accumulation_steps.front(); }
  double LearningRateIn(const TrainingVariant& variant, int64_t i) const {
    const double own = variant.learning_rate();
    return (own > 0 ? own : training.learning_rate) * options.lr_schedule.ShareIn(i, training.steps);
  }

 private:
  void AddSettings();
  void CheckPeriods();
};

}  // namespace gradsync::bench
