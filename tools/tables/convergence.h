#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/records/reader.h"
#include "tools/tables/rows.h"
#include "tools/tables/table.h"

// What //bench:convergence measured: how far a model learns with each variant.
namespace gradsync::tools {

// The row that losses are compared with.
inline constexpr std::string_view kLossBaseline = "naive";
// With fewer seeds no difference has a verdict: an interval of two knows their deviation with one degree of
// freedom.
inline constexpr size_t kFewestSeeds = 3;
// Losses are called equal where the interval of their difference lies within this part of the baseline's.
inline constexpr double kLossEqualWithin = 0.005;
// A loss is reached where it is within this part of it, so that rounding does not decide.
inline constexpr double kReachedWithin = 1e-3;

inline bool IsConvergence(const bench::Record& record) { return record.experiment == "convergence"; }

// One model trained by one variant from several seeds.
struct LearningRow {
  struct Trial {
    int64_t seed = 0;
    std::vector<double>
        bits;  // per byte of the held-out text, like LearningSetting::steps; NaN: stopped before
  };

  const Measurement* measured = nullptr;  // of the first seed
  std::vector<Trial> trials;
  double step_s = 0;          // median of all trials' steps, or of the means of their periods
  double bytes_per_step = 0;  // that each rank sends and the link carries, mean
  // Over seeds; NaN where fewer than two are complete. Intervals of differences hold for all rows at once.
  Estimate final_bits{};
  Estimate against_baseline{};  // paired by seed, as a part of the baseline's mean
  Verdict verdict = Verdict::kNone;
  // Until every seed reaches the baseline's last loss with this seed, on average; NaN if one does not.
  double steps_to_reach = kNaN;

  std::string variant() const { return measured->variant(); }
};

// A setting that --tune has tried.
struct TriedSetting {
  const Measurement* measured = nullptr;  // of the first seed
  std::vector<double> bits;               // per byte, after the last step, by seed
};

struct LearningSetting {
  std::vector<double> steps;  // after which rows were judged
  std::vector<TriedSetting> tried;
  std::vector<LearningRow> rows;

  // The row that losses are compared with; null without it, or if nothing was judged.
  const LearningRow* baseline() const;
  const bench::Record& record() const { return rows.front().measured->record; }
};

// The settings of the groups that are of this experiment; the groups must outlive them. Throws InvalidInput
// if they were trained on different texts.
std::vector<LearningSetting> MakeLearningSettings(const std::vector<Group>& groups);

// Appends the tables "convergence" and "losses" (by step and seed), if there are settings, and "tuning", if
// settings were tried.
void AddConvergenceTable(const std::vector<LearningSetting>& settings, std::vector<Table>* tables);

}  // namespace gradsync::tools
