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

// Structs for a benchmark's results. A Setting has one Row for each variant, such as "core@gloo", that was
// measured with one configuration.
namespace gradsync::tools {

// A row is called equal to its baseline (Verdict::kEqual) only if the interval of their difference contains 0
// and lies within +- 3 % of the baseline's step time.
inline constexpr double kEqualWithin = 0.03;

// A row gets no verdict if other programs and the kernel's network work used at least 10 % of a host's CPU
// time (OthersShare).
inline constexpr double kTooDisturbed = 0.1;

// Tells what the confidence interval of a difference to a baseline, such as a difference in step time, shows:
//   kNone    the interval is unknown, or was not judged
//   kSlower  the whole interval is above 0
//   kFaster  the whole interval is below 0
//   kEqual   the interval contains 0 and lies between -equal_within and +equal_within of JudgeInterval
//   kOpen    the interval contains 0 and also numbers beyond -equal_within or +equal_within
enum class Verdict { kNone, kSlower, kFaster, kEqual, kOpen };
Verdict JudgeInterval(const Interval& interval, double equal_within = kEqualWithin);
std::string_view WordOf(Verdict verdict);

// A row of a table: the measurements of a strategy with options over a backend, or only of a backend's
// collectives.
struct Row {
  const Measurement* measured = nullptr;  // never null
  // True if the benchmark's first launch measured this row, and the later launches did not (flag --choose).
  bool left_early = false;
  // The variant's name in tables, usually without the backend: "core:bucket_bytes=1Mi".
  std::string label{};
  Warnings warnings{};
  // Why this row must not be compared, such as other programs' use of the CPU ("disturbed:17%"); else empty.
  std::string no_verdict{};
  double step_s = kNaN;  // seconds of a step (TypicalTime); NaN if unknown
  double bus_bytes_per_second = kNaN;

  std::string variant() const { return measured->variant(); }    // "core:bucket_bytes=1Mi@gloo"
  std::string strategy() const { return measured->strategy(); }  // "core"
  bool is_called(std::string_view name) const { return variant() == name || strategy() == name; }
  const std::string& backend() const { return measured->record.variant.backend; }
  // Returns the value of the variant's option `name`; 0 if the option is missing or not a number.
  double option(std::string_view name) const { return measured->record.variant.NumberOr(name, 0); }
  const bench::ConfigFields& config() const { return measured->record.config; }
  const bench::FactFields& facts() const { return measured->record.facts; }
  bool is_floor() const { return measured->is_floor(); }
  bool is_peer() const { return measured->is_peer(); }
  // Returns false if a check found an error in a collective's output, or in the gradients or parameters of a
  // strategy that communicates.
  bool is_right() const { return !Has(warnings, Warning::kUnequal) && !Has(warnings, Warning::kWrong); }
  // Returns the mean over steps of the longest time called `samples` (such as "forward_ns") that any rank
  // had. The mean is in seconds; NaN if the row has no times called `samples`.
  double MeanOf(SampleName samples) const;
};

// Compares a row's step time with that of the row's baseline. The baseline is compared with itself.
struct Comparison {
  const Row* row = nullptr;
  const Row* base = nullptr;
  bool spans_backends = false;  // whether rows over several backends or backend options have this `base`
  // The row's step time minus the baseline's, divided by the baseline's: 0.14 means 14 % slower.
  Estimate estimate{};
  Verdict verdict = Verdict::kNone;
  std::string no_verdict{};  // why the row or the baseline must not be compared; else empty
  // True if `row` can be compared with other rows that have the baseline `base`, and none of them is shown to
  // be faster.
  bool may_be_fastest = false;

  bool is_of_baseline() const { return row == base; }
};
// Sets Comparison::no_verdict to the reason why one of the two rows must not be compared; empty if both may
// be compared. If both may be compared and have right results, sets Comparison::verdict to
// JudgeInterval(estimate.interval).
void Judge(Comparison* comparison);

// How much longer a step takes than a step without communication, in seconds. The cost has four parts:
//   exposed  waiting for communication after the slowest rank has computed
//   own      the strategy's own work in BeginStep and hooks
//   tax      how much longer forward and backward take than without communication
//   rest     the remaining cost, mostly of the optimizer
// The four parts are NaN for rows not measured in rounds, and for strategies of PyTorch that wait for
// communication inside backward.
struct Cost {
  const Row* row = nullptr;
  const Row* floor = nullptr;  // row without communication; if it is `row` itself, there is no cost
  // The whole cost. With a probability of about 95 % or more, the intervals of all costs of a Setting contain
  // the true costs.
  Estimate total{};
  double exposed = kNaN;
  double own = exposed, tax = exposed, rest = exposed;

  // Returns `total`; NaN if `row` or `floor` must not be compared (Row::no_verdict).
  Estimate told() const { return row->no_verdict.empty() && floor->no_verdict.empty() ? total : Estimate{}; }
};
inline constexpr double Cost::*kCostParts[] = {&Cost::exposed, &Cost::tax, &Cost::own, &Cost::rest};

// The results with one configuration, for example one model, batch size, sequence length and dtype.
struct Setting {
  std::string experiment{};  // such as "ddp" or "all_reduce"
  std::vector<Row> rows{};
  // For each row, `comparisons` has at most one comparison with a baseline, and `costs` at most one cost of
  // synchronisation. `costs` is empty if no strategy without communication was measured.
  std::vector<Comparison> comparisons{};
  std::vector<Cost> costs{};
  size_t num_rounds = 0;  // in all launches together; 0 if the rows were not measured in turn
  size_t num_launches = 0;
  size_t num_looks = 1;     // planned number of checks whether intervals are narrow enough (`--precision`)
  Confidence confidence{};  // for all intervals of the setting
  double round_s = 0;       // seconds of a round, in which each row has one turn
  // Why the rows of this setting must not be compared, such as too few steps; empty if they may be compared.
  std::string void_reason{};

  Setting() = default;
  // Settings can be moved but not copied, because comparisons and costs point to elements of `rows`.
  Setting(Setting&&) = default;
  Setting& operator=(Setting&&) = default;

  // Returns true if the rows may be compared (`void_reason` is empty) and were measured in rounds.
  bool takes_turns() const { return void_reason.empty() && num_rounds > 0; }
  // Returns the number of rows that did not leave early (Row::left_early).
  int64_t num_in_turn() const { return std::ranges::count(rows, false, &Row::left_early); }
  // Returns the first row, for values that all rows share, such as the model.
  const Row& any() const { return rows.front(); }
  // Returns the row's comparison with its baseline, or a Comparison with null pointers.
  Comparison ComparisonOf(const Row& row) const;
  Cost CostOf(const Row& row) const;
};

// Makes a Setting from each group: the measurements of one run with one model, batch size and so on. With
// --choose, the group of the first launch and the group of the later launches become one Setting. `groups`
// must outlive the result. `baseline_row` is a variant ("core@gloo"), or a strategy ("core") that is the
// baseline over each backend. In a setting without a row called `baseline_row`, the baseline is the first
// strategy of gradsync that communicates; for collectives, the first row.
std::vector<Setting> MakeSettings(const std::vector<Group>& groups,
                                  std::string_view baseline_row = kDefaultBaseline);

// A setting, and a name with the values in which the settings of one benchmark differ: "batch 2, sequence
// 128". The name is empty if the benchmark has only one setting. Names that would be equal end with the run
// id.
struct NamedSetting {
  const Setting* setting = nullptr;
  std::string name{};
};
using Settings = std::vector<NamedSetting>;
Settings NameSettings(const std::vector<const Setting*>& settings);
Settings NameSettings(const std::vector<Setting>& settings);

// Returns the mean of the times in seconds, without the lowest 20 % and the highest 20 %; NaN if `series` is
// null. For a publication, returns the published mean.
double TypicalTime(const Series* series);
// Returns the name of the measurement's times: "time_ns" for collectives, "step_ns" for training steps.
SampleName StepSamples(const Measurement& measurement);
// Returns the times of whole collectives or training steps, or of one phase if a publication has only times
// of phases.
const Series& MainTimes(const Measurement& measurement);
double ConfigNumber(const Measurement& measurement, bench::ConfigName name);

// Returns the value of the variant's option bucket_elements or published_size, a size of gradient buckets; 0
// without these options. The unit is elements, or the unit of a publication.
double LabelledSize(const Measurement& measurement);

// Returns half the width of the widest interval among comparisons and costs, as a fraction of the baseline's
// step time. For a row without a baseline, the half-width of its cost is divided by the step time of
// Cost::floor (the row without communication). Returns NaN if an interval is unknown, or if there is none.
double PrecisionOf(const Setting& setting);

}  // namespace gradsync::tools
