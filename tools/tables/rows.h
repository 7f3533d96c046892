#ifndef GRADSYNC_TOOLS_TABLES_ROWS_H_
#define GRADSYNC_TOOLS_TABLES_ROWS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/records/reader.h"
#include "tools/records/validity.h"
#include "tools/statistics/estimates.h"

// What was measured, as every table and sentence reads it: cells, and in each a row for every
// variant.
namespace gradsync::tools {

// The baseline's strategy unless another is asked for: a difference to the best known strategy decides most.
inline constexpr std::string_view kDefaultBaseline = "core";
// Differences are called equal where their interval lies within this part of the baseline's step.
inline constexpr double kEqualWithin = 0.03;

// What the interval of a difference shows.
enum class Verdict { kNone, kSlower, kFaster, kEqual, kOpen };
Verdict VerdictOf(const Interval& interval);
// "slower"; empty for none.
std::string_view WordOf(Verdict verdict);

// What synchronisation costs: how much longer a step takes than the floor's in the same round, in seconds,
// and its parts, which add up to it:
//   exposed  waited for after the last rank had computed
//   own      the strategy's own work in BeginStep and hooks
//   tax      how much longer forward and backward take than the floor's
//   rest     what is left: the optimizer, mostly
// All unknown without the floor in the same run; parts of peers that wait inside backward, too.
struct Cost {
  Estimate total;  // holds with those of all other rows of the cell
  double exposed = kNaN;
  double own = exposed, tax = exposed, rest = exposed;
};
inline constexpr struct {
  const char* name;
  double Cost::*part;
} kCostParts[] = {
    {"exposed", &Cost::exposed}, {"tax", &Cost::tax}, {"own", &Cost::own}, {"rest", &Cost::rest}};

// A variant of a cell. In all_reduce it is a backend, whose step is one collective.
struct Row {
  static constexpr size_t kNone = static_cast<size_t>(-1);

  const Measurement* measured = nullptr;  // its phases, percentiles, configuration, facts; never null
  size_t floor = kNone;                   // the row of the cell that the cost is counted from, maybe itself
  // The row of the cell that it is compared with, maybe itself. None: a floor, a peer, or there is no
  // baseline over its backend.
  size_t baseline = kNone;
  bool spans_backends = false;  // whether the rows with its baseline are over several
  Flags flags{};
  double step_s = kNaN;  // trimmed mean, or as published
  // The difference of its step to the baseline's, as a part of that: 0.14 is 14 % slower.
  Estimate against_baseline{};
  Verdict verdict = Verdict::kNone;
  std::string no_verdict{};  // why it can have none, though it may have an interval: "disturbed:17%"
  Cost cost{};
  Estimate told_cost{};         // its total, unless it or its floor can have no verdict
  bool may_be_fastest = false;  // among the rows with this baseline, see LeadsOf
  double bus_bytes_per_second = kNaN;

  std::string variant() const { return measured->variant(); }  // "core:bucket_bytes=1Mi@gloo"
  // Without its backend, unless it is compared with rows over others.
  std::string label() const { return spans_backends ? variant() : measured->record.variant.label(); }
  std::string strategy() const { return measured->strategy(); }  // "core"
  bool is_called(std::string_view name) const { return variant() == name || strategy() == name; }
  const std::string& backend() const { return measured->record.variant.backend; }
  // A number among its variant's options, 0 without it.
  double option(std::string_view name) const { return measured->record.variant.NumberOr(name, 0); }
  const bench::ConfigFields& config() const { return measured->record.config; }
  const bench::FactFields& facts() const { return measured->record.facts; }
  bool is_floor() const { return measured->is_floor(); }
  bool is_peer() const { return measured->is_peer(); }
  // Mean over the steps, in seconds, of samples such as "forward_ns"; NaN without them.
  double MeanOf(SampleName samples) const;
};

// What all variants of a run's cell have in common: model, batch size, sequence length, dtype and so on. They
// took turns, if order is interleaved.
struct Cell {
  std::string experiment{};  // "ddp" or "all_reduce"
  std::string name{};        // what tells it from the other cells: "batch 2, sequence 128"; may be empty
  std::vector<Row> rows{};
  size_t num_rounds = 0;  // of all launches together; 0: not in turn
  size_t num_launches = 0;
  size_t num_looks = 1;  // that were planned, whether it may end (`--precision`)
  double round_s = 0;    // how long a round takes on the watch, or all rows' steps where that is unknown
  // Why nothing is said of who is faster: "fewer than 10 steps (`n<10`)". Empty if something can be.
  std::string void_reason{};

  // Whether differences have intervals.
  bool takes_turns() const { return void_reason.empty() && num_rounds > 0; }
  // Any row; they agree in what is the cell's.
  const Row& any() const { return rows.front(); }
};

// Sets the row's verdict, of its interval, or why it has none: the baseline's reason is one too.
void SetVerdict(const Row& base, Row* row);

// Gives each the name that tells it from the others.
void NameCells(std::vector<Cell>* cells);

// The trimmed mean of a series of times, or the mean that was published of it; NaN without one.
double TypicalOf(const Series* series);
// "step_ns", or "time_ns" for all_reduce.
SampleName StepSamples(const Measurement& measurement);
// The times of the whole step or collective; where only phases were published, those of the first phase.
const Series& MainTimes(const Measurement& measurement);
// A number of a configuration; NaN without one.
double ConfigNumber(const Measurement& measurement, bench::ConfigName name);

// The size of buckets on a variant's label; 0 without one.
double LabelOf(const Measurement& measurement);

// The number of rounds in which every row takes every place equally often.
size_t RoundsPerBlock(const Cell& cell);

// The widest interval of a difference to the baseline, or to the floor, to either side, as a part of the
// baseline's step; NaN if one is not known or there is none.
double PrecisionOf(const Cell& cell);

// One cell for each group, which must outlive them. `baseline_row`: a strategy, whose row over a backend is
// the baseline of the rows over that backend, or a variant, which is that of all; where there is none, the
// first row takes its place.
std::vector<Cell> CellsOf(const std::vector<Group>& groups, std::string_view baseline_row = kDefaultBaseline);

// Sets what is known of a cell whose variants took turns: its rounds, differences to baselines, costs and
// their parts.
void EstimateInTurn(Cell* cell);

// The differences of two rows' steps, as parts of the second one's; the intervals of all of them hold at
// once. They have none where nothing may be said (Cell::void_reason), or where rows did not take turns.
using RowPairs = std::vector<std::pair<const Row*, const Row*>>;
std::vector<Estimate> CompareSteps(const Cell& cell, const RowPairs& pairs);
// The same of what two rows cost over their own floors, in seconds; NaN for floors and without them.
std::vector<Estimate> CompareCosts(const Cell& cell, const RowPairs& pairs);

// Of rows with one baseline, by how much each row's step is at least longer than each other's, as a part of
// the baseline's step (Hsu's comparisons with the best, see LeastDifferences): the fastest row has no
// positive one in 95 cases of 100. So rows without a positive one may be the fastest. NaN where nothing may
// be said.
std::vector<std::vector<double>> LeadsOf(const Cell& cell, const std::vector<const Row*>& rows);
bool MayBeFastest(const std::vector<double>& leads);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_ROWS_H_
