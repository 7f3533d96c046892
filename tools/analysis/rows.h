#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/analysis/baselines.h"
#include "tools/measurements/measurement.h"
#include "tools/measurements/reader.h"
#include "tools/measurements/validity.h"
#include "tools/statistics/estimates.h"

// The measured data that tables and sentences read: settings, a row for every variant of a setting, and the
// comparisons of rows.
namespace gradsync::tools {

// Rows are called equal if the whole interval of their difference is within this fraction of the baseline's
// step.
inline constexpr double kEqualWithin = 0.03;

// If other programs used this fraction of the CPU time, differences may come from these programs.
inline constexpr double kTooDisturbed = 0.1;

// The claim that the interval of a difference carries.
enum class Verdict { kNone, kSlower, kFaster, kEqual, kOpen };
Verdict JudgeInterval(const Interval& interval, double equal_within = kEqualWithin);
// Returns the word for a verdict, such as "slower"; empty for kNone.
std::string_view WordOf(Verdict verdict);

// A row is a variant in a setting. In all_reduce a row is a backend, and its step is one collective.
struct Row {
  const Measurement* measured = nullptr;  // phases, percentiles, configuration and facts; never null
  // True if only the first launch measured this row, because this launch dropped the row (`--choose`). The
  // row's estimates come from that launch.
  bool left_early = false;
  // Text of the variant, with the backend only if rows over several backends are compared.
  std::string label{};
  Warnings warnings{};
  // Reason why no comparison has a verdict, although there are intervals: "disturbed:17%".
  std::string no_verdict{};
  double step_s = kNaN;  // trimmed mean, or as published
  double bus_bytes_per_second = kNaN;

  std::string variant() const { return measured->variant(); }    // "core:bucket_bytes=1Mi@gloo"
  std::string strategy() const { return measured->strategy(); }  // "core"
  bool is_called(std::string_view name) const { return variant() == name || strategy() == name; }
  const std::string& backend() const { return measured->record.variant.backend; }
  // Returns the value of an option of the variant; 0 if the variant does not have the option.
  double option(std::string_view name) const { return measured->record.variant.NumberOr(name, 0); }
  const bench::ConfigFields& config() const { return measured->record.config; }
  const bench::FactFields& facts() const { return measured->record.facts; }
  bool is_floor() const { return measured->is_floor(); }
  bool is_peer() const { return measured->is_peer(); }
  // Returns false if a check found a wrong result.
  bool is_right() const { return !Has(warnings, Warning::kUnequal) && !Has(warnings, Warning::kWrong); }
  // Returns the mean over the steps, in seconds, of samples such as "forward_ns"; NaN without samples.
  double MeanOf(SampleName samples) const;
};

// The comparison of a row with its baseline. A baseline is compared with itself, with a difference of 0.
struct Comparison {
  const Row* row = nullptr;
  const Row* base = nullptr;
  bool spans_backends = false;  // whether the rows with this baseline run over several backends
  // The difference of the row's step to the baseline's step, as a fraction of the baseline's step: 0.14 means
  // 14 % slower.
  Estimate estimate{};
  Verdict verdict = Verdict::kNone;
  std::string no_verdict{};  // reason of the row or of the baseline why there is no verdict
  // True if the row may be the fastest of all rows with this baseline (FindLeads).
  bool may_be_fastest = false;

  bool is_of_baseline() const { return row == base; }
};
// Sets the verdict of a comparison, or the reason why there is no verdict.
void Judge(Comparison* comparison);

// The cost of synchronisation: how much longer a row's step takes than the step of the floor in the same
// round, in seconds. The floor does not synchronise. The sum of the parts is the cost:
//   exposed  waits after the last rank has computed
//   own      the strategy's own work in BeginStep and hooks
//   tax      how much longer forward and backward take than the floor's forward and backward
//   rest     the remaining cost, mostly of the optimizer
// For peers that wait inside backward, the parts are unknown.
struct Cost {
  const Row* row = nullptr;
  const Row* floor = nullptr;  // the floor; if it is the row itself, the cost is unknown
  // The cost; its interval is simultaneous with the costs of all other rows of the setting.
  Estimate total{};
  double exposed = kNaN;
  double own = exposed, tax = exposed, rest = exposed;

  // Returns the total, unless the row or its floor has a reason for no verdict.
  Estimate told() const { return row->no_verdict.empty() && floor->no_verdict.empty() ? total : Estimate{}; }
};
inline constexpr double Cost::*kCostParts[] = {&Cost::exposed, &Cost::tax, &Cost::own, &Cost::rest};

// A setting is what some variants of a run have in common: model, batch size, sequence length, dtype and
// other values. If the order is interleaved, these variants took turns.
struct Setting {
  std::string experiment{};  // "ddp" or "all_reduce"
  std::vector<Row> rows{};
  // Comparisons and costs in the order of rows. Floors, peers, and rows over a backend without a baseline
  // have no comparison. Without a floor in the run, costs are unknown.
  std::vector<Comparison> comparisons{};
  std::vector<Cost> costs{};
  size_t num_rounds = 0;  // number of rounds of all launches together; 0 if variants did not take turns
  size_t num_launches = 0;
  size_t num_looks = 1;     // planned number of checks whether the run may end (`--precision`)
  Confidence confidence{};  // the confidence with which the setting's intervals are computed
  double round_s = 0;       // wall-clock time of a round; if unknown, the sum of all rows' steps
  // Reason why no comparison of the setting has a verdict: "fewer than 10 steps (`n<10`)". Empty if
  // comparisons may have verdicts.
  std::string void_reason{};

  Setting() = default;
  // A move keeps the addresses of rows; in a copy, comparisons would point to the original rows.
  Setting(Setting&&) = default;
  Setting& operator=(Setting&&) = default;

  // Returns whether differences have intervals.
  bool takes_turns() const { return void_reason.empty() && num_rounds > 0; }
  // Returns the number of rows that took turns in the setting's rounds.
  int64_t num_in_turn() const { return std::ranges::count(rows, false, &Row::left_early); }
  // Returns any row. All rows have equal values for the setting.
  const Row& any() const { return rows.front(); }
  // Returns the comparison of a row; it has no rows if the row is not compared.
  Comparison ComparisonOf(const Row& row) const;
  Cost CostOf(const Row& row) const;
};

// Makes one setting for each group; a group of deciding launches and the group of the launch that chose its
// rows make one setting together. The groups must outlive the settings. `baseline_row` is a strategy or a
// variant. The row of a strategy over a backend is the baseline of all rows over this backend. The row of a
// variant is the baseline of all rows. If there is no such row, the first row is the baseline.
std::vector<Setting> MakeSettings(const std::vector<Group>& groups,
                                  std::string_view baseline_row = kDefaultBaseline);

// A setting, and the name that distinguishes it from other settings of a list: "batch 2, sequence 128"; may
// be empty.
struct NamedSetting {
  const Setting* setting = nullptr;
  std::string name{};
};
using Settings = std::vector<NamedSetting>;
Settings NameSettings(const std::vector<const Setting*>& settings);
Settings NameSettings(const std::vector<Setting>& settings);

// Returns the trimmed mean of a series of times, or its published mean; NaN without a series.
double TypicalTime(const Series* series);
// Returns "step_ns", or "time_ns" for all_reduce.
SampleName StepSamples(const Measurement& measurement);
// Returns the times of the whole step or collective; if only phases were published, the times of the first
// phase.
const Series& MainTimes(const Measurement& measurement);
// Returns a number of the configuration; NaN if it is missing.
double ConfigNumber(const Measurement& measurement, bench::ConfigName name);

// Returns the bucket size in a variant's label; 0 if the label has no bucket size.
double LabelledSize(const Measurement& measurement);

// Returns the largest distance from an estimate to an end of its interval, over all differences to the
// baseline and to the floor, as a fraction of the baseline's step; NaN if an interval is unknown or there are
// no differences.
double PrecisionOf(const Setting& setting);

}  // namespace gradsync::tools
