#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <ranges>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

// The tables about training steps. A new column is a line in one of the lists of fields here, a new table one
// more such list; all are of the same rows.
namespace gradsync::tools {
namespace {

// Sections of the table "ddp". The first is what people see without --details.
enum Section { kHeadline = 1, kSteps, kCosts, kPhases, kWork };

using Fields = std::vector<Field<View>>;

double FlopsPerSecond(const View& view) {
  return Fact("flops_per_step")(view) * static_cast<double>(view.measured().world_size()) /
         view.row.MeanOf("step_ns");
}

auto PerSecond(std::string_view fact) {
  return [fact](const View& view) { return Fact(fact)(view) / view.row.MeanOf("step_ns"); };
}
auto RankSeconds(std::string_view samples) {
  return OfTimes(samples, [](const Series& series) { return Mean(series.rank_means); });
}
template <class Part>
auto CostOf(Part Cost::*part) {
  return [part](const View& view) { return view.row.cost.*part; };
}
double Ratio(const View& view, std::string_view own, std::string_view whole) {
  return view.row.MeanOf(own) / view.row.MeanOf(whole);
}

Fields DdpFields() {
  return {
      {{.name = "model_size", .kind = Kind::kText, .section = kSteps, .said_once = true}, Text("model")},
      {{.name = "backend", .kind = Kind::kText, .section = kSteps}, Text("backend")},
      {{.name = "time_per_step", .section = kSteps}, MeanTime("step_ns")},
      {{.name = "std_time_step", .digits = 3, .section = kSteps}, StdTime("step_ns")},
      {{.name = "time_per_sync", .section = kSteps}, MeanTime("sync_exposed_ns")},
      {{.name = "std_time_sync", .digits = 3, .section = kSteps}, StdTime("sync_exposed_ns")},
      {{.name = "fraction_sync", .kind = Kind::kFraction, .section = kSteps},
       [](const View& view) { return Ratio(view, "sync_exposed_ns", "step_ns"); }},
      {{.name = "strategy", .kind = Kind::kText, .section = kSteps}, Text("strategy")},
      {{.name = "variant", .kind = Kind::kText, .audience = Audience::kPeople, .leads = true}, &View::name},
      {{.name = "variant", .kind = Kind::kText, .audience = Audience::kMachines},
       [](const View& view) { return view.row.variant(); }},
      {{.name = "batch_size", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("batch_size")},
      {{.name = "accumulation_steps", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("accumulation_steps")},
      {{.name = "seq_len", .kind = Kind::kInteger, .section = kSteps, .said_once = true}, Number("seq_len")},
      {{.name = "image_size", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("image_size")},
      {{.name = "bucket_bytes", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("bucket_bytes")},

      {{.name = "step (s)", .section = kHeadline}, [](const View& view) { return view.row.step_s; }},
      {{.name = "delta (%)", .kind = Kind::kPercent, .section = kHeadline},
       [](const View& view) { return Scaled(view.row.against_baseline, 100); }},
      {{.name = "sync_cost (s)", .kind = Kind::kPart, .digits = 3, .section = kHeadline},
       CostOf(&Cost::total)},
      {{.name = "exposed (s)", .kind = Kind::kPart, .digits = 3, .section = kHeadline},
       CostOf(&Cost::exposed)},
      {{.name = "tax + own (s)",
        .kind = Kind::kPart,
        .audience = Audience::kPeople,
        .digits = 3,
        .section = kHeadline},
       [](const View& view) { return view.row.cost.tax + view.row.cost.own; }},
      {{.name = "verified", .kind = Kind::kText, .audience = Audience::kPeople, .section = kHeadline},
       [](const View& view) { return EqualityOf(view.measured()); }},

      {{.name = "own (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::own)},
      {{.name = "tax (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::tax)},
      {{.name = "rest (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::rest)},
      {{.name = "fraction_cost", .kind = Kind::kFraction, .section = kCosts},
       [](const View& view) { return Scaled(view.row.cost.total, 1 / view.row.step_s); }},
      {{.name = "skew (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, MeanTime(kSkew)},
      {{.name = "forward as covariate", .kind = Kind::kText, .section = kCosts},
       [](const View& view) { return view.row.uses_forward ? "yes" : "no"; }},

      {{.name = "forward (s)", .section = kPhases}, MeanTime("forward_ns")},
      {{.name = "backward (s)", .section = kPhases}, MeanTime("backward_ns")},
      {{.name = "backward_and_sync (s)", .section = kPhases}, MeanTime("backward_and_sync_ns")},
      {{.name = "forward_backward (s)", .section = kPhases}, MeanTime(kComputed)},
      {{.name = "begin_step (s)", .section = kPhases}, MeanTime("begin_step_ns")},
      {{.name = "hooks (s)", .section = kPhases}, MeanTime("hooks_ns")},
      {{.name = "optimizer (s)", .section = kPhases}, MeanTime("optimizer_ns")},
      {{.name = "comm_busy (s)", .section = kPhases}, MeanTime("comm_busy_ns")},
      {{.name = "overlap", .kind = Kind::kFraction, .section = kPhases},
       [](const View& view) {
         return view.row.MeanOf("comm_busy_ns") > 0 ? 1 - Ratio(view, "sync_exposed_ns", "comm_busy_ns")
                                                    : kNaN;
       }},
      {{.name = "median_step (s)", .section = kPhases}, TimePercentile("step_ns", 0.5)},
      {{.name = "p90_step (s)", .section = kPhases}, TimePercentile("step_ns", 0.9)},
      {{.name = "p95_step (s)", .section = kPhases, .marked_with = Flag::kTooFewForP95},
       TimePercentile("step_ns", 0.95)},
      {{.name = "p99_step (s)", .section = kPhases, .marked_with = Flag::kTooFewForP99},
       TimePercentile("step_ns", 0.99)},

      {{.name = "collectives", .kind = Kind::kInteger, .section = kWork}, NumCollectives},
      {{.name = "sent (B)", .kind = Kind::kInteger, .section = kWork}, Fact("sent_bytes_per_step")},
      {{.name = "peak_memory (B/param)", .kind = Kind::kPlain, .section = kWork},
       [](const View& view) { return PeakBytesPerParameter(view.measured()); }},
      {{.name = "tokens/s", .digits = 3, .section = kWork}, PerSecond("tokens_per_step")},
      {{.name = "images/s", .digits = 3, .section = kWork}, PerSecond("images_per_step")},
      {{.name = "GFLOP/s", .digits = 3, .section = kWork},
       [](const View& view) { return 1e-9 * FlopsPerSecond(view); }},
      {{.name = "share_of_peak", .kind = Kind::kFraction, .section = kWork},
       [](const View& view) { return FlopsPerSecond(view) / Fact("peak_flops_per_second")(view); }},
      {{.name = "compute_cpu (s)", .digits = 3, .section = kWork}, RankSeconds("compute_cpu_ns")},
      {{.name = "communication_cpu (s)", .digits = 3, .section = kWork}, RankSeconds("communication_cpu_ns")},
      {{.name = "others_cpu (s)", .digits = 3, .section = kWork}, MeanTime("others_cpu_ns")},

      {{.name = "baseline", .kind = Kind::kText, .section = kSteps, .said_once = true},
       [](const View& view) { return view.base() == nullptr ? "" : view.base()->variant(); }},
      {{.name = "equals single process", .kind = Kind::kText, .section = kSteps},
       [](const View& view) { return EqualityOf(view.measured()); }},
      {{.name = "grad_rel_error", .audience = Audience::kMachines},
       [](const View& view) { return view.measured().grad_rel_error.value_or(kNaN); }},
      {{.name = "param_rel_error", .audience = Audience::kMachines},
       [](const View& view) { return view.measured().param_rel_error.value_or(kNaN); }},
      {{.name = "flags", .kind = Kind::kText, .section = kHeadline}, FlagsOfRow},
  };
}

// "40", or "40 to 52" where cells differ.
template <class Value>
std::string RangeOver(const std::vector<const Cell*>& cells, const Value& value, int decimals = 0) {
  const auto [least, most] = std::ranges::minmax(cells | std::views::transform([&](const Cell* cell) {
                                                   return static_cast<double>(std::invoke(value, *cell));
                                                 }));
  const std::string low = Fixed(least, decimals), high = Fixed(most, decimals);
  return low == high ? low : Join(low, " to ", high);
}

// How the differences of all cells were estimated: "20 % trimmed means over 84 rounds ...".
std::string MethodOf(const std::vector<const Cell*>& cells) {
  std::vector<const Cell*> with;
  std::vector<std::string> delayed, differing;
  size_t num_by_launches = 0;
  const auto is_by_launches = [](const Row& row) {
    return row.against_baseline.by_launches || row.cost.total.by_launches;
  };
  for (const Cell* cell : cells) {
    num_by_launches += std::ranges::any_of(cell->rows, is_by_launches);
    const bool is_used = cell->coefficient != 0 && std::ranges::any_of(cell->rows, &Row::uses_forward);
    if (!is_used) continue;
    with.push_back(cell);
    for (const Row& row : cell->rows) {
      if (row.uses_forward) continue;
      const bool is_delayed = row.config().DoubleOr("forward_delay_us", 0) > 0;
      (is_delayed ? delayed : differing).push_back(View{*cell, row}.name());
    }
  }
  const std::string launches = RangeOver(cells, &Cell::num_launches);
  std::string text = Join("Differences are ", Fixed(100 * kTrimmed, 0), " % trimmed means over ",
                          RangeOver(cells, &Cell::num_rounds), " rounds of ", launches,
                          launches == "1" ? " launch" : " launches", cells.size() > 1 ? " in each cell" : "");
  if (cells[0]->num_looks > 1)
    text += Join(", widened for ", cells[0]->num_looks, " looks whether they are precise enough");
  if (!with.empty()) {
    text += Join(", with the step's own forward as covariate (coefficient ",
                 RangeOver(with, &Cell::coefficient, 2), ")");
    if (with.size() < cells.size()) text += Join(" in ", with.size(), " of ", cells.size(), " cells");
  } else if (std::ranges::any_of(cells, [](const Cell* cell) { return cell->coefficient != 0; })) {
    text += ", without a covariate, because forward differs between rows";
  }
  if (!delayed.empty()) text += Join("; not of ", Listed(delayed), ", with a delay there");
  if (!differing.empty())
    text += Join("; not of ", Listed(differing), ", whose forward differs from the others'");
  text += ".";
  if (num_by_launches > 0)
    text += Join(" Launches differ by more than their rounds explain",
                 cells.size() == 1 ? "" : Join(" in ", num_by_launches, " of ", cells.size(), " cells"),
                 ": they, and not rounds, are the samples there.");
  return text;
}

Table DdpTable(const std::string& title, Audience audience, const std::vector<Cell>& cells) {
  Fields fields = DdpFields();
  Append(RunFields(kSteps), &fields);
  TableOf<View> table("ddp", title, std::move(fields), audience);
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (row.measured->Find("step_ns") == nullptr) continue;  // only phases were published
      table.Add({cell, row});
      if (row.may_be_fastest) table.MarkLast("variant");
    }
  }
  for (std::string& sentence : TrainingSentences(cells)) table.AddFinding(std::move(sentence));
  std::vector<const Cell*> paired;
  for (const Cell& cell : cells) {
    if (cell.num_rounds > 0 && cell.void_reason.empty()) paired.push_back(&cell);
  }
  if (!paired.empty()) table.AddNote(MethodOf(paired));
  table.SetSectionTitle(
      kSteps,
      "Steps: means in seconds, of each step's slowest rank; std is the population's. "
      "time_per_sync: from the end of a rank's own backward, so it holds the wait for a later rank");
  table.SetSectionTitle(kCosts,
                        "sync_cost = exposed + own + tax + rest; skew: how much earlier than the last rank "
                        "the others had computed");
  table.SetSectionTitle(
      kPhases, "Phases: means in seconds, of each step's slowest rank. overlap = 1 - exposed / busy");
  table.SetSectionTitle(
      kWork, "Work and memory; processor seconds are of one rank, others_cpu of all other programs");
  return table;
}

}  // namespace

// Machines get all rows in one table, people a table and its sentences for each run, and for what others
// published.
void AddTrainingTables(const std::vector<Cell>& all, std::vector<Table>* tables) {
  constexpr char kTitle[] = "Strategies of gradient synchronisation";
  std::vector<std::vector<Cell>> runs;
  std::map<std::string, size_t> numbers;
  const std::vector<Cell> cells = TrainingOf(all);
  for (const Cell& cell : cells) {
    if (std::ranges::all_of(cell.rows,
                            [](const Row& row) { return row.measured->Find("step_ns") == nullptr; }))
      continue;
    const Measurement& any = *cell.any().measured;
    const std::string run_id = any.is_published() ? "" : any.record.run_id;
    const auto [run, is_new] = numbers.emplace(run_id, runs.size());
    if (is_new) runs.emplace_back();
    runs[run->second].push_back(cell);
  }
  if (runs.empty()) return;
  for (std::vector<Cell>& run : runs) {
    if (runs.size() == 1) break;
    const std::string what = run.size() == 1 ? run[0].name : run[0].any().config().StringOr("model", "");
    NameCells(&run);
    tables->push_back(DdpTable(Join(kTitle, ": ", what), Audience::kPeople, run));
  }
  tables->push_back(DdpTable(kTitle, runs.size() == 1 ? Audience::kAll : Audience::kMachines, cells));
  (*tables)[tables->size() - (runs.size() == 1 ? 1 : 2)].AddNote(
      "delta: against the baseline's step over the same backend; sync_cost: how much longer than the floor's "
      "step. In brackets: simultaneous 95 % CI, of all deltas of a cell, and of all its costs. Bold: not "
      "shown slower than any other row with this baseline.");
}

}  // namespace gradsync::tools
