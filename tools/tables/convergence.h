#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/analysis/rows.h"
#include "tools/measurements/reader.h"
#include "tools/tables/table.h"

// Tables of //bench:convergence: the loss of a model that each variant trains.
namespace gradsync::tools {

// The smallest number of seeds with which a difference has a verdict. With two seeds, the standard deviation
// would have one degree of freedom.
inline constexpr size_t kFewestSeeds = 3;
// Losses are called equal if the whole interval of their difference is within this fraction of the baseline's
// loss.
inline constexpr double kLossEqualWithin = 0.005;
// A loss counts as reached if the difference is within this fraction of the loss, so that rounding does not
// matter.
inline constexpr double kReachedWithin = 1e-3;

inline bool IsConvergence(const bench::Record& record) { return record.experiment == "convergence"; }

// One model trained by one variant from several seeds.
struct LearningRow {
  struct Trial {
    int64_t seed = 0;
    // Bits per byte of the held-out text, by the steps of LearningSetting::steps; NaN after an early stop.
    std::vector<double> bits;
  };

  const Measurement* measured = nullptr;  // measurement of the first seed
  std::vector<Trial> trials;
  double step_s = 0;          // median of the steps of all trials, or of the means of periods
  double bytes_per_step = 0;  // mean number of bytes that each rank sends over the link
  // Estimates over seeds; NaN if fewer than two seeds are complete. Intervals of differences are simultaneous
  // for all rows.
  Estimate final_bits{};
  // Difference to the baseline, paired by seed, as a fraction of the baseline's mean.
  Estimate against_baseline{};
  Verdict verdict = Verdict::kNone;
  // Mean number of steps until a seed reaches the baseline's last loss with this seed; NaN if a seed does not
  // reach it.
  double steps_to_reach = kNaN;

  std::string variant() const { return measured->variant(); }
};

// A setting that --tune tried.
struct TriedSetting {
  const Measurement* measured = nullptr;  // measurement of the first seed
  std::vector<double> bits;               // bits per byte after the last step, by seed
};

struct LearningSetting {
  std::vector<double> steps;  // steps after which the loss was measured
  std::vector<TriedSetting> tried;
  std::vector<LearningRow> rows;

  // Returns the baseline row; null if there is no baseline, or if no loss was measured.
  const LearningRow* baseline() const;
  const bench::Record& record() const { return rows.front().measured->record; }
};

// Makes the settings of groups of this experiment. The groups must outlive the settings. Throws InvalidInput
// if the groups were trained on different texts.
std::vector<LearningSetting> MakeLearningSettings(const std::vector<Group>& groups);

// Appends the tables "convergence" and "losses" (by step and seed), if there are settings, and "tuning", if
// settings were tried.
void AddConvergenceTable(const std::vector<LearningSetting>& settings, std::vector<Table>* tables);

}  // namespace gradsync::tools
