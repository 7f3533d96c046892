#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/learning/tuning.h"
#include "bench/training/plan.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// The learning rate over a trial, as a fraction of the largest one. In the first w of n steps it grows: the
// fraction is (i + 1) / (w + 1) in step i = 0, 1, ... Then the fraction stays at 1, or falls as half a
// cosine:
//
//   min + (1 - min) * (1 + cos(pi * (i - w) / (n - w))) / 2
struct LearningRateSchedule {
  bool is_cosine = false;
  int64_t warmup_steps = 0;
  double min = 0;

  bool operator==(const LearningRateSchedule&) const = default;
  double ShareIn(int64_t step, int64_t num_steps) const;
  // Returns a text such as "cosine,warmup=100,min=0.1", without default values.
  std::string ToString() const;
};

// A flag in the format of ToString.
Kind<LearningRateSchedule> LearningRateSchedules();

// The command line of //bench:convergence: the flags of //bench:ddp for the model, batches, training,
// variants and ranks, and the flags of this struct.
struct ConvergenceOptions {
  ConvergenceOptions();

  // The number of steps of each trial is training.steps; ReadCorpus reads training.corpus.
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

// The settings and trials that these options describe.
struct ConvergencePlan {
  // Throws like TrainingPlan's constructor.
  ConvergencePlan(const ConvergenceOptions& given, const FlagTable& flags);

  ConvergenceOptions options;
  TrainingPlan training;
  // The settings to try, as [variant][setting]. If there is nothing to choose, the only setting is the
  // variant.
  std::vector<std::vector<TrainingVariant>> settings;
  int64_t evaluated_every = 0;  // steps

  int64_t seq_len() const { return training.seq_lens.front(); }
  int64_t batch_size() const { return training.batch_sizes.front(); }
  int64_t accumulation_steps() const { return training.accumulation_steps.front(); }
  // Returns a variant's learning rate in step i.
  double LearningRateIn(const TrainingVariant& variant, int64_t i) const {
    const double own = variant.learning_rate();
    return (own > 0 ? own : training.learning_rate) * options.lr_schedule.ShareIn(i, training.steps);
  }

 private:
  void AddSettings();
  void CheckPeriods();
};

}  // namespace gradsync::bench
