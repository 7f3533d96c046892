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

// The data from which tables and sentences about results are made. A Setting has the measurements of one run
// (with --repeats, of all its launches) with the same model, batch size, sequence length and so on. It has a
// Row for each variant (a strategy with options, over a backend), and comparisons of these rows.
namespace gradsync::tools {

// Two rows are called equal if the interval of the difference of their steps contains 0 and lies within +-
// this fraction of the baseline's step.
inline constexpr double kEqualWithin = 0.03;

// If other programs or the kernel's network work used at least this fraction of the host's CPU time during a
// row's steps, the row gets no verdict, because they may cause its difference to other rows.
inline constexpr double kTooDisturbed = 0.1;

// What the interval of a difference shows. kSlower: the whole interval is above 0. kFaster: it is below 0.
// kEqual: it contains 0 and lies within +- equal_within, an argument of JudgeInterval. kOpen: it contains 0
// and reaches beyond +- equal_within. kNone: there is no interval.
enum class Verdict { kNone, kSlower, kFaster, kEqual, kOpen };
Verdict JudgeInterval(const Interval& interval, double equal_within = kEqualWithin);
std::string_view WordOf(Verdict verdict);

// A row of a table: the measurements of one variant (a strategy with options, over a backend). In the
// benchmark of collectives, a row is a backend, and its step is one collective.
struct Row {
  const Measurement* measured = nullptr;  // never null
  // True if only the first launch measured this row, because that launch showed it to be slower than another
  // row (`--choose`).
  bool left_early = false;
  // The variant as tables show it: "core:bucket_bytes=1Mi". The backend follows ("core@gloo") only if the
  // row's baseline is also the baseline of rows over another backend, or over the same backend with other
  // options.
  std::string label{};
  Warnings warnings{};
  // Why this row must not be compared, such as "disturbed:17%" (other programs or the kernel's network work
  // used 17 % of the host's CPU time); empty if nothing about this row forbids it.
  std::string no_verdict{};
  double step_s = kNaN;  // trimmed mean of the steps, in seconds, or the published mean
  double bus_bytes_per_second = kNaN;

  std::string variant() const { return measured->variant(); }    // "core:bucket_bytes=1Mi@gloo"
  std::string strategy() const { return measured->strategy(); }  // "core"
  bool is_called(std::string_view name) const { return variant() == name || strategy() == name; }
  const std::string& backend() const { return measured->record.variant.backend; }
  // Returns the value of an option of the variant; 0 without the option.
  double option(std::string_view name) const { return measured->record.variant.NumberOr(name, 0); }
  const bench::ConfigFields& config() const { return measured->record.config; }
  const bench::FactFields& facts() const { return measured->record.facts; }
  bool is_floor() const { return measured->is_floor(); }
  bool is_peer() const { return measured->is_peer(); }
  // Returns false if a check found wrong elements in the result of a collective, or gradients or parameters
  // that differ between ranks or from the reference.
  bool is_right() const { return !Has(warnings, Warning::kUnequal) && !Has(warnings, Warning::kWrong); }
  // Returns the mean over all steps of a phase's time on the slowest rank of each step, in seconds; `samples`
  // names the phase, such as "forward_ns". NaN if this time was not measured.
  double MeanOf(SampleName samples) const;
};

// The comparison of a row with its baseline. A baseline is compared with itself: `row` and `base` are equal.
struct Comparison {
  const Row* row = nullptr;
  const Row* base = nullptr;
  bool spans_backends = false;  // whether rows over several backends are compared with this baseline
  // By how much the row's step is longer, as a fraction of the baseline's step: 0.14 means 14 % slower.
  Estimate estimate{};
  Verdict verdict = Verdict::kNone;
  std::string no_verdict{};  // why the row or the baseline must not be compared; else empty
  // False if another row with the same baseline is shown to be faster (FindLeads), or if the row cannot be
  // ranked, for example because its results are wrong.
  bool may_be_fastest = false;

  bool is_of_baseline() const { return row == base; }
};
// Sets no_verdict to the reason why `row` or `base` must not be compared. If there is no reason, and both
// rows are right (Row::is_right), sets `verdict` to what the interval of `estimate` shows.
void Judge(Comparison* comparison);

// The cost of synchronisation, in seconds: how much longer a step takes than a step of the strategy without
// communication (the floor) in the same round. The cost is the sum of:
//   exposed  waits after the last rank has computed
//   own      the strategy's own work in BeginStep and hooks
//   tax      how much longer forward and backward take than the floor's forward and backward
//   rest     the remaining cost, mostly of the optimizer
// The parts exposed, own, tax and rest are NaN for strategies of PyTorch that wait inside backward, because
// their waits are not timed separately.
struct Cost {
  const Row* row = nullptr;
  const Row* floor = nullptr;  // row without communication; if it is `row` itself, there is no cost
  // With a probability of at least 95 %, the intervals of `total` of all costs of a setting contain the true
  // costs.
  Estimate total{};
  double exposed = kNaN;
  double own = exposed, tax = exposed, rest = exposed;

  // Returns `total`; NaN if `row` or `floor` must not be compared (Row::no_verdict).
  Estimate told() const { return row->no_verdict.empty() && floor->no_verdict.empty() ? total : Estimate{}; }
};
inline constexpr double Cost::*kCostParts[] = {&Cost::exposed, &Cost::tax, &Cost::own, &Cost::rest};

// The rows that were measured with one model, batch size, sequence length, dtype, ..., and their comparisons.
struct Setting {
  std::string experiment{};  // such as "ddp" or "all_reduce"
  std::vector<Row> rows{};
  // `comparisons` and `costs` have at most one element for each row, in the order of `rows`. Strategies
  // without communication and strategies of PyTorch have no comparison, unless the user names them as the
  // baseline. Rows over a backend without a baseline have none, either. `costs` is empty if all strategies
  // communicate, because a cost is a difference to a strategy without communication.
  std::vector<Comparison> comparisons{};
  std::vector<Cost> costs{};
  size_t num_rounds = 0;  // in all launches together; 0 if the rows were not measured in turn
  size_t num_launches = 0;
  size_t num_looks = 1;     // planned number of checks whether intervals are narrow enough (`--precision`)
  Confidence confidence{};  // for all intervals of the setting
  double round_s = 0;       // seconds of a round, in which each row has one turn
  // Why no rows of the setting may be compared, such as too few steps; else empty.
  std::string void_reason{};

  Setting() = default;
  // Settings can be moved but not copied, because comparisons and costs point to elements of `rows`. A move
  // keeps the addresses of these elements.
  Setting(Setting&&) = default;
  Setting& operator=(Setting&&) = default;

  // Returns whether the rows took turns (in each round, one step or a few successive steps of each) and may
  // be compared. Otherwise, differences have no intervals.
  bool takes_turns() const { return void_reason.empty() && num_rounds > 0; }
  // Returns the number of rows that all launches measured (a launch is one start of all ranks).
  int64_t num_in_turn() const { return std::ranges::count(rows, false, &Row::left_early); }
  // Returns the first row, from which callers read values that all rows share, such as the model.
  const Row& any() const { return rows.front(); }
  // Returns the comparison of a row with its baseline; if the row is not compared, returns a Comparison whose
  // `row` and `base` are null.
  Comparison ComparisonOf(const Row& row) const;
  Cost CostOf(const Row& row) const;
};

// Makes a Setting of each group of measurements. Rows point to these measurements, so `groups` must outlive
// the result. With --choose, the measurements of the first launch and those of the later launches make one
// setting together. If `baseline_row` is a strategy ("core"), rows are compared with this strategy over their
// own backend. If it is a variant ("core@gloo"), rows over all backends are compared with this one row. If no
// row of the setting is called `baseline_row`, the baseline is the first strategy that communicates and is
// not PyTorch's. In the benchmark of collectives, whose rows have no strategy, the baseline is the first row.
std::vector<Setting> MakeSettings(const std::vector<Group>& groups,
                                  std::string_view baseline_row = kDefaultBaseline);

// A setting, and a name with the values in which it differs from the other settings of a list: "batch 2,
// sequence 128".
struct NamedSetting {
  const Setting* setting = nullptr;
  std::string name{};
};
using Settings = std::vector<NamedSetting>;
Settings NameSettings(const std::vector<const Setting*>& settings);
Settings NameSettings(const std::vector<Setting>& settings);

// Returns the trimmed mean of a series of times, or the published mean, in seconds; NaN if `series` is null.
double TypicalTime(const Series* series);
// Returns the name of the series with the times of whole collectives, "time_ns", if there is one, else of
// that with the times of whole steps, "step_ns".
SampleName StepSamples(const Measurement& measurement);
// Returns the times of whole steps or collectives. If `measurement` has published figures without such times,
// returns the times of the phase (a part of the step, such as backward) whose name is first in the alphabet.
const Series& MainTimes(const Measurement& measurement);
double ConfigNumber(const Measurement& measurement, bench::ConfigName name);

// Returns the size of the variant's buckets that its options tell: bucket_elements (in elements), else
// published_size (in bytes or elements, whichever the paper uses); 0 if it has neither option.
double LabelledSize(const Measurement& measurement);

// Returns the largest half-width of the intervals of all comparisons and costs, as a fraction of the
// baseline's step (without a baseline, of the step without communication); NaN if an interval is unknown, or
// if there are none.
double PrecisionOf(const Setting& setting);

}  // namespace gradsync::tools
