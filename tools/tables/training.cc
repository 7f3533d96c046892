#include <algorithm>
#include <cmath>
#include <map>

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

// "Differences are 20 % trimmed means over 84 rounds ..."
std::string MethodOf(const Cell& cell) {
  std::vector<std::string> without;
  for (const Row& row : cell.rows) {
    if (!row.uses_forward) without.push_back(row.variant());
  }
  const bool is_used = cell.coefficient != 0 && without.size() < cell.rows.size();
  std::string text = Join("Differences", cell.name.empty() ? "" : " at " + cell.name, " are ",
                          Fixed(100 * kTrimmed, 0), " % trimmed means over ", cell.num_rounds, " rounds of ",
                          cell.num_launches, cell.num_launches == 1 ? " launch" : " launches");
  if (cell.num_looks > 1)
    text += Join(", widened for ", cell.num_looks, " looks whether they are precise enough");
  if (is_used)
    text += Join(", with the step's own forward as covariate (coefficient ", Fixed(cell.coefficient, 2), ")");
  if (is_used && !without.empty()) {
    text += Join("; not of ", Listed(without), ", whose forward differs from the floor's");
  }
  return text + ".";
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
  for (const Cell& cell : cells) {
    if (cells.size() <= 3 && cell.num_rounds > 0 && cell.void_reason.empty()) table.AddNote(MethodOf(cell));
  }
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
      "step. In brackets: simultaneous 95 % CI, of all deltas to one baseline, and of all costs. Bold: not "
      "shown slower than any other row with this baseline.");
}

}  // namespace gradsync::tools
