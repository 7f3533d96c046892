#ifndef GRADSYNC_TOOLS_TABLES_ROWS_H_
#define GRADSYNC_TOOLS_TABLES_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/records/reader.h"
#include "tools/records/validity.h"
#include "tools/statistics/estimates.h"

// What was measured, as every table and sentence reads it: settings, in each a row for every variant, and
// what comparing its rows shows.
namespace gradsync::tools {

// The baseline's strategy unless another is asked for: a difference to the best known strategy decides most.
inline constexpr std::string_view kDefaultBaseline = "core";
// Differences are called equal where their interval lies within this part of the baseline's step.
inline constexpr double kEqualWithin = 0.03;

// Others took so much of the processors that nobody knows what of a difference is theirs.
inline constexpr double kTooDisturbed = 0.1;

// What the interval of a difference shows.
enum class Verdict { kNone, kSlower, kFaster, kEqual, kOpen };
Verdict JudgeInterval(const Interval& interval, double equal_within = kEqualWithin);
// "slower"; empty for none.
std::string_view WordOf(Verdict verdict);

// A variant of a setting. In all_reduce it is a backend, whose step is one collective.
struct Row {
  const Measurement* measured = nullptr;  // its phases, percentiles, configuration, facts; never null
  // Measured in the launch alone that chose the others (`--choose`), which its estimates come from.
  bool left_early = false;
  std::string label{};  // its variant, without the backend unless it is compared over several
  Warnings warnings{};
  std::string
      no_verdict{};      // why nothing is said of who is faster, though there are intervals: "disturbed:17%"
  double step_s = kNaN;  // trimmed mean, or as published
  double bus_bytes_per_second = kNaN;

  std::string variant() const { return measured->variant(); }    // "core:bucket_bytes=1Mi@gloo"
  std::string strategy() const { return measured->strategy(); }  // "core"
  bool is_called(std::string_view name) const { return variant() == name || strategy() == name; }
  const std::string& backend() const { return measured->record.variant.backend; }
  // A number among its variant's options, 0 without it.
  double option(std::string_view name) const { return measured->record.variant.NumberOr(name, 0); }
  const bench::ConfigFields& config() const { return measured->record.config; }
  const bench::FactFields& facts() const { return measured->record.facts; }
  bool is_floor() const { return measured->is_floor(); }
  bool is_peer() const { return measured->is_peer(); }
  // Whether no check found its result wrong.
  bool is_right() const { return !Has(warnings, Warning::kUnequal) && !Has(warnings, Warning::kWrong); }
  // Mean over the steps, in seconds, of samples such as "forward_ns"; NaN without them.
  double MeanOf(SampleName samples) const;
};

// A row against the one that it is compared with. Baselines are compared with themselves: they differ by 0.
struct Comparison {
  const Row* row = nullptr;
  const Row* base = nullptr;
  bool spans_backends = false;  // whether the rows with this baseline are over several
  // The difference of the row's step to the baseline's, as a part of that: 0.14 is 14 % slower.
  Estimate estimate{};
  Verdict verdict = Verdict::kNone;
  std::string no_verdict{};     // why there can be none: the row's reason, or the baseline's
  bool may_be_fastest = false;  // among the rows with this baseline, see FindLeads

  bool is_of_baseline() const { return row == base; }
};
// Sets the verdict of its estimate, or why there is none.
void Judge(Comparison* comparison);

// What synchronisation costs: how much longer a row's step takes than the floor's, which does not
// synchronise, in the same round, in seconds, and its parts, which add up to it:
//   exposed  waited for after the last rank had computed
//   own      the strategy's own work in BeginStep and hooks
//   tax      how much longer forward and backward take than the floor's
//   rest     what is left: the optimizer, mostly
// Parts of peers that wait inside backward are unknown.
struct Cost {
  const Row* row = nullptr;
  const Row* floor = nullptr;  // maybe the row itself, whose cost is unknown
  Estimate total{};            // holds with those of all other rows of the setting
  double exposed = kNaN;
  double own = exposed, tax = exposed, rest = exposed;

  // The total, unless the row or its floor can have no verdict.
  Estimate told() const { return row->no_verdict.empty() && floor->no_verdict.empty() ? total : Estimate{}; }
};
inline constexpr double Cost::*kCostParts[] = {&Cost::exposed, &Cost::tax, &Cost::own, &Cost::rest};

// What all variants of a run's setting have in common: model, batch size, sequence length, dtype and so on.
// They took turns, if order is interleaved.
struct Setting {
  std::string experiment{};  // "ddp" or "all_reduce"
  std::vector<Row> rows{};
  // In the order of rows. Those that do not take part have none: floors and peers are not compared, nor is a
  // row over a backend without baseline; without a floor in the same run costs are unknown.
  std::vector<Comparison> comparisons{};
  std::vector<Cost> costs{};
  size_t num_rounds = 0;  // of all launches together; 0: not in turn
  size_t num_launches = 0;
  size_t num_looks = 1;     // that were planned, whether it may end (`--precision`)
  Confidence confidence{};  // of the intervals of a family
  double round_s = 0;       // how long a round takes on the watch, or all rows' steps where that is unknown
  // Why nothing is said of who is faster: "fewer than 10 steps (`n<10`)". Empty if something can be.
  std::string void_reason{};

  Setting() = default;
  Setting(Setting&&) = default;  // rows stay where they are; a copy's comparisons would be of others
  Setting& operator=(Setting&&) = default;

  // Whether differences have intervals.
  bool takes_turns() const { return void_reason.empty() && num_rounds > 0; }
  // How many rows took turns in its rounds.
  int64_t num_in_turn() const { return std::ranges::count(rows, false, &Row::left_early); }
  // Any row; they agree in what is the setting's.
  const Row& any() const { return rows.front(); }
  // Without rows if there is none.
  Comparison ComparisonOf(const Row& row) const;
  Cost CostOf(const Row& row) const;
};

// One for each group, which must outlive them, but one for a group of launches that decide together with that
// of the launch that chose its rows. `baseline_row`: a strategy, whose row over a backend is the
// baseline of the rows over that backend, or a variant, which is that of all; where there is none, the first
// row takes its place.
std::vector<Setting> MakeSettings(const std::vector<Group>& groups,
                                  std::string_view baseline_row = kDefaultBaseline);

// A setting, and what tells it from the others of a list: "batch 2, sequence 128"; may be empty.
struct NamedSetting {
  const Setting* setting = nullptr;
  std::string name{};
};
using Settings = std::vector<NamedSetting>;
Settings NameSettings(const std::vector<const Setting*>& settings);
Settings NameSettings(const std::vector<Setting>& settings);

// The trimmed mean of a series of times, or the mean that was published of it; NaN without one.
double TypicalTime(const Series* series);
// "step_ns", or "time_ns" for all_reduce.
SampleName StepSamples(const Measurement& measurement);
// The times of the whole step or collective; where only phases were published, those of the first phase.
const Series& MainTimes(const Measurement& measurement);
// A number of a configuration; NaN without one.
double ConfigNumber(const Measurement& measurement, bench::ConfigName name);

// The size of buckets on a variant's label; 0 without one.
double LabelledSize(const Measurement& measurement);

// The widest interval of a difference to the baseline, or to the floor, to either side, as a part of the
// baseline's step; NaN if one is not known or there is none.
double PrecisionOf(const Setting& setting);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_ROWS_H_
