#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"
#include "tools/measurements/reader.h"
#include "tools/tables/parts/table.h"

// Makes tables that compare the losses of //bench:convergence, which trains a language model with each
// strategy and each of several seeds.
namespace gradsync::tools {

// A strategy's loss is called equal to, better or worse than the baseline's only if both have finished the
// training with at least kFewestSeeds seeds.
inline constexpr size_t kFewestSeeds = 3;
// A strategy's last loss is called equal to the baseline's if the confidence interval of
// LearningRow::against_baseline contains 0 and lies between -kLossEqualWithin and kLossEqualWithin.
inline constexpr double kLossEqualWithin = 0.005;
// A training counts as having reached the baseline's last loss as soon as its own loss is at most (1 +
// kReachedWithin) times that loss, so that rounding does not matter.
inline constexpr double kReachedWithin = 1e-3;

inline bool IsConvergence(const bench::Record& record) { return record.experiment == "convergence"; }

// The results of one variant (a strategy with options), trained once with each of several seeds.
struct LearningRow {
  struct Trial {
    int64_t seed = 0;
    // bits[i] is the loss on the held-out text, in bits per byte, after step LearningSetting::steps[i]; NaN
    // if it was not measured after this step.
    std::vector<double> bits;
  };

  const Measurement* measured = nullptr;  // measurement of the first seed
  std::vector<Trial> trials;
  double step_s = 0;          // median time of a step, in seconds, over all seeds
  double bytes_per_step = 0;  // mean number of bytes that each rank sends in a step
  // Loss on the held-out text after the last step, in bits per byte: the mean over the seeds whose training
  // has finished. If fewer than two trainings have finished, final_bits has no confidence interval.
  Estimate final_bits{};
  // How much higher the loss after the last step is than the baseline's with the same seed. The value is a
  // mean over the seeds with which both trainings have finished. The mean is divided by the mean of the
  // baseline's last losses with these seeds. against_baseline is NaN in the baseline's own row. With a
  // probability of about 95 % or more, all intervals of against_baseline in one LearningSetting together
  // contain the true differences.
  Estimate against_baseline{};
  Verdict verdict = Verdict::kNone;
  // Number of training steps until the loss has reached (see kReachedWithin) the last loss of the baseline
  // with the same seed. The number is a mean over the seeds with which this row's and the baseline's
  // trainings have finished. steps_to_reach is NaN without such a seed, or if this row's training with one of
  // these seeds never reaches the baseline's last loss.
  double steps_to_reach = kNaN;

  std::string variant() const { return measured->variant(); }
};

// A variant with option values that the flag --tune tried, before the measured trainings, to choose the best
// values.
struct TriedSetting {
  const Measurement* measured = nullptr;  // measurement of the first seed
  std::vector<double> bits;               // loss after the last step, in bits per byte, by seed
};

struct LearningSetting {
  std::vector<double> steps;  // after which the loss was measured
  std::vector<TriedSetting> tried;
  std::vector<LearningRow> rows;

  // Returns the first row of the strategy kLossBaseline whose option `optimizer` is adamw or not set. Losses
  // of the other rows are compared with those of this row. Returns null if there is no such row, or if no
  // loss was measured.
  const LearningRow* baseline() const;
  const bench::Record& record() const { return rows.front().measured->record; }
};

// Makes one LearningSetting, with the losses of all strategies, from each element of `groups` that was
// measured by //bench:convergence. A group that has only trials of --tune is skipped. The groups must outlive
// the settings, which point to them. Throws InvalidInput if two groups were trained on different texts.
std::vector<LearningSetting> MakeLearningSettings(const std::vector<Group>& groups);

// Appends to `tables` the tables "convergence" (one line for each variant) and "losses" (by variant, seed and
// step, without the trials of --tune). If --tune tried option values (LearningSetting::tried), also appends
// the table "tuning" with their mean losses over seeds. Appends nothing if `settings` is empty.
void AddConvergenceTable(const std::vector<LearningSetting>& settings, std::vector<Table>* tables);

}  // namespace gradsync::tools
