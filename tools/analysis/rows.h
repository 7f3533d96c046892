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

// Defines structs with the results of benchmarks. A Setting has all results of one run of a benchmark with
// the same model, batch size, sequence length and so on. A Setting has a Row for each variant (a strategy
// with options, over a backend), and comparisons of these rows.
namespace gradsync::tools {

// A strategy is called equal to its baseline if the confidence interval of Comparison::estimate, their
// difference as a fraction of the baseline's step time, contains 0 and lies within +- kEqualWithin.
inline constexpr double kEqualWithin = 0.03;

// A row (the measurements of one strategy) gets no verdict, such as slower, if other work used at least the
// fraction kTooDisturbed of the host's CPU time during the strategy's steps. Other work is that of other
// programs and the network work of the operating system's kernel.
inline constexpr double kTooDisturbed = 0.1;

// A Verdict tells what the confidence interval of a difference to a baseline (in step time or loss) shows.
// kSlower: the whole interval is above 0. kFaster: the whole interval is below 0. kEqual: the interval
// contains 0 and lies within +- equal_within, an argument of JudgeInterval. kOpen: the interval contains 0
// and reaches beyond +- equal_within. kNone: the interval is unknown, or was not judged, for example because
// a result is wrong.
enum class Verdict { kNone, kSlower, kFaster, kEqual, kOpen };
Verdict JudgeInterval(const Interval& interval, double equal_within = kEqualWithin);
std::string_view WordOf(Verdict verdict);

// A row of a table: the measurements of one variant (a strategy with options, over a backend). In the
// benchmark of collectives, a row is a backend, and its step is one collective.
struct Row {
  const Measurement* measured = nullptr;  // never null
  // True if, with the flag --choose, only the first launch measured this row. The later launches left the row
  // out, because the first launch showed that some other row is faster (ChooseForLaunches).
  bool left_early = false;
  // The variant as tables show it: "core:bucket_bytes=1Mi". The backend follows ("core@gloo") only if rows
  // over another backend, or over the same backend with other options, have the same baseline as this row.
  std::string label{};
  Warnings warnings{};
  // The reason why this row must not be compared, such as "disturbed:17%" (other programs or the kernel's
  // network work used 17 % of the host's CPU time); empty if nothing about this row forbids comparisons.
  std::string no_verdict{};
  double step_s = kNaN;  // trimmed mean of the steps, in seconds, or the published mean
  double bus_bytes_per_second = kNaN;

  std::string variant() const { return measured->variant(); }    // "core:bucket_bytes=1Mi@gloo"
  std::string strategy() const { return measured->strategy(); }  // "core"
  bool is_called(std::string_view name) const { return variant() == name || strategy() == name; }
  const std::string& backend() const { return measured->record.variant.backend; }
  // Returns the value of the variant's option `name` as a number; 0 if the option is missing or no number.
  double option(std::string_view name) const { return measured->record.variant.NumberOr(name, 0); }
  const bench::ConfigFields& config() const { return measured->record.config; }
  const bench::FactFields& facts() const { return measured->record.facts; }
  bool is_floor() const { return measured->is_floor(); }
  bool is_peer() const { return measured->is_peer(); }
  // Returns false if a check found wrong elements in the result of a collective, or gradients or parameters
  // that differ between ranks or from the reference.
  bool is_right() const { return !Has(warnings, Warning::kUnequal) && !Has(warnings, Warning::kWrong); }
  // Takes, for each step, the longest of all ranks' times with the name `samples`, such as "forward_ns" (the
  // time of forward). Returns the mean of these times over all steps, in seconds; NaN if no times are named
  // `samples`.
  double MeanOf(SampleName samples) const;
};

// The comparison of a row's step time with that of its baseline, another row. For the baseline itself, `row`
// and `base` are the same row.
struct Comparison {
  const Row* row = nullptr;
  const Row* base = nullptr;
  bool spans_backends = false;  // whether rows over several backends are compared with this baseline
  // How much longer the row's step is than the baseline's step, as a fraction of the baseline's step: 0.14
  // means 14 % slower.
  Estimate estimate{};
  Verdict verdict = Verdict::kNone;
  std::string no_verdict{};  // why the row or the baseline must not be compared; else empty
  // False if the function FindLeads shows that another row with the same baseline is faster, or if the row
  // cannot be ranked, for example because its results are wrong.
  bool may_be_fastest = false;

  bool is_of_baseline() const { return row == base; }
};
// Sets Comparison::no_verdict to the reason why the comparison's `row` must not be compared (Row::no_verdict)
// or, if `row` has no such reason, to the reason of its `base`. If neither `row` nor `base` has a
// Row::no_verdict, and no check found an error in them (Row::is_right), sets Comparison::verdict to what
// JudgeInterval returns for the interval of Comparison::estimate: slower, faster, equal, open or none.
void Judge(Comparison* comparison);

// The cost of synchronisation, in seconds: how much longer a step takes than a step of the strategy without
// communication (the floor) in the same round. The cost is the sum of:
//   exposed  waits after the last rank has computed
//   own      the strategy's own work in BeginStep and hooks
//   tax      how much longer forward and backward take than the floor's forward and backward
//   rest     the remaining cost, mostly of the optimizer
// The four parts (exposed, own, tax and rest) are NaN for those of PyTorch's strategies that wait for
// communication inside backward, where waiting cannot be separated from computing.
struct Cost {
  const Row* row = nullptr;
  const Row* floor = nullptr;  // row without communication; if it is `row` itself, there is no cost
  // The whole cost. With a probability of at least 95 %, the intervals of the whole costs of all variants in
  // a setting contain the true costs.
  Estimate total{};
  double exposed = kNaN;
  double own = exposed, tax = exposed, rest = exposed;

  // Returns the whole cost of synchronisation (`total`); NaN if `row`, or the row without communication
  // (`floor`), must not be compared (Row::no_verdict).
  Estimate told() const { return row->no_verdict.empty() && floor->no_verdict.empty() ? total : Estimate{}; }
};
inline constexpr double Cost::*kCostParts[] = {&Cost::exposed, &Cost::tax, &Cost::own, &Cost::rest};

// The results with one model, batch size, sequence length, dtype and so on: a row for each variant, and
// comparisons of these rows.
struct Setting {
  std::string experiment{};  // such as "ddp" or "all_reduce"
  std::vector<Row> rows{};
  // For each row, `comparisons` has at most one element, the row's comparison with its baseline. For each
  // row, `costs` has at most one Cost: how much longer the row's step is than that of the strategy without
  // communication. The elements of `comparisons` and of `costs` have the order of `rows`. The row of a
  // strategy without communication, or of PyTorch, has no comparison unless it is the baseline itself. A row
  // also has no comparison if the baseline strategy was not measured over the row's backend. `costs` is empty
  // if no strategy without communication was measured.
  std::vector<Comparison> comparisons{};
  std::vector<Cost> costs{};
  size_t num_rounds = 0;  // in all launches together; 0 if the rows were not measured in turn
  size_t num_launches = 0;
  size_t num_looks = 1;     // planned number of checks whether intervals are narrow enough (`--precision`)
  Confidence confidence{};  // for all intervals of the setting
  double round_s = 0;       // seconds of a round, in which each row has one turn
  // The reason why no rows of the setting may be compared, such as too few steps; empty if rows may be
  // compared.
  std::string void_reason{};

  Setting() = default;
  // Settings can be moved but not copied, because comparisons and costs point to elements of `rows`. A move
  // keeps the addresses of these elements.
  Setting(Setting&&) = default;
  Setting& operator=(Setting&&) = default;

  // Returns true if void_reason is empty (the rows may be compared) and the strategies were measured in turn:
  // in each round, one step or a few successive steps of each strategy. If takes_turns() is false,
  // differences between rows have no intervals.
  bool takes_turns() const { return void_reason.empty() && num_rounds > 0; }
  // Returns the number of rows that every launch (one start of all ranks) measured, not only the first one.
  int64_t num_in_turn() const { return std::ranges::count(rows, false, &Row::left_early); }
  // Returns the first row, from which callers read values that all rows share, such as the model.
  const Row& any() const { return rows.front(); }
  // Returns the comparison of a row with its baseline; if the row is not compared, returns a Comparison whose
  // `row` and `base` are null.
  Comparison ComparisonOf(const Row& row) const;
  Cost CostOf(const Row& row) const;
};

// Makes one Setting from each element of `groups`, the measurements of all strategies with the same model,
// batch size and so on. The elements of Setting::rows point to these measurements, so `groups` must outlive
// the result. With --choose, the first launch of a run measures all variants, the later launches only some.
// The measurements of such a run are two groups, from which MakeSettings makes one Setting. If `baseline_row`
// is a strategy ("core"), each row is compared with this strategy's row over the same backend. If
// `baseline_row` is a variant ("core@gloo"), rows over all backends are compared with this one row. If no row
// of the setting is called `baseline_row`, the baseline is the first strategy that communicates and is not
// PyTorch's. In the benchmark of collectives, whose rows have no strategy, the baseline is the first row.
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

// Returns the mean, in seconds, of the times in `series` without the lowest 20 % and the highest 20 %. If the
// times are from a publication, returns the published mean. Returns NaN if `series` is null.
double TypicalTime(const Series* series);
// Returns "time_ns", the name of the times of whole collectives, if the measurement has them; else "step_ns",
// the name of the times of whole training steps.
SampleName StepSamples(const Measurement& measurement);
// Returns the measured times of whole collectives or, if there are none, of whole training steps. For a
// publication that states only times of phases (parts of the step, such as backward), returns those of the
// phase whose name is first in the alphabet.
const Series& MainTimes(const Measurement& measurement);
double ConfigNumber(const Measurement& measurement, bench::ConfigName name);

// Returns the size of the gradient buckets from the variant's options: the value of bucket_elements, in
// elements; without this option, the value of published_size, in the unit that the paper uses (bytes or
// elements); 0 if the variant has neither option.
double LabelledSize(const Measurement& measurement);

// Returns half the width of the widest interval in Setting::comparisons and Setting::costs, as a fraction of
// a step time. This step time is that of the row's baseline or, if the row has no baseline, of the strategy
// without communication. Returns NaN if the interval of a comparison or cost is unknown, or if none exists.
double PrecisionOf(const Setting& setting);

}  // namespace gradsync::tools
