#include <algorithm>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "tools/analysis/answers.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// The tables about training steps. To add a column, add a line to one of the lists of fields in this file. To
// add a table, add a list. All tables have these rows.
namespace gradsync::tools {
namespace {

// Sections of the table "ddp". Without --details, users see only the first section.
enum Section { kHeadline = 1, kSteps, kCosts, kPhases, kWork };

using Fields = std::vector<Field<View>>;

double FlopsPerSecond(const View& view) {
  return Fact("flops_per_step")(view) * static_cast<double>(view.measured().world_size()) /
         view.row.MeanOf("step_ns");
}

auto PerSecond(bench::FactName fact) {
  return [fact](const View& view) { return Fact(fact)(view) / view.row.MeanOf("step_ns"); };
}
auto RankSeconds(SampleName samples) {
  return OfTimes(samples, [](const Series& series) { return Mean(series.rank_means); });
}
template <class Part>
auto CostOf(Part Cost::*part) {
  return [part](const View& view) { return view.cost().*part; };
}
double Ratio(const View& view, SampleName own, SampleName whole) {
  return view.row.MeanOf(own) / view.row.MeanOf(whole);
}

// Returns the samples of the intervals of a setting.
std::string SamplesOf(const View& view) {
  const Setting& setting = *view.at.setting;
  if (setting.num_launches == 0) return "";
  const bool by_launches =
      std::ranges::any_of(setting.comparisons,
                          [](const Comparison& own) { return own.estimate.by_launches; }) ||
      std::ranges::any_of(setting.costs, [](const Cost& cost) { return cost.total.by_launches; });
  return by_launches ? Join(setting.num_launches, " launches") : Join(setting.num_rounds, " rounds");
}

Fields DdpFields() {
  return {
      {{.name = "variant", .audience = Audience::kPeople}, &View::name},
      {{.name = "model_size", .section = kSteps, .said_once = true}, Text("model")},
      {{.name = "backend", .section = kSteps}, &View::backend},
      {{.name = "time_per_step", .section = kSteps, .marked_with = Warning::kOutliers}, MeanTime("step_ns")},
      {{.name = "std_time_step", .digits = 3, .section = kSteps, .marked_with = Warning::kOutliers},
       StdTime("step_ns")},
      {{.name = "time_per_sync", .section = kSteps}, MeanTime(kWaits)},
      {{.name = "std_time_sync", .digits = 3, .section = kSteps}, StdTime(kWaits)},
      {{.name = "fraction_sync", .kind = Kind::kFraction, .section = kSteps},
       [](const View& view) { return Ratio(view, kWaits, "step_ns"); }},
      {{.name = "strategy", .section = kSteps}, &View::strategy},
      {{.name = "variant", .audience = Audience::kMachines}, &View::variant},
      {{.name = "setting", .audience = Audience::kMachines}, [](const View& view) { return view.at.name; }},
      ConfigField("batch_size", kSteps),
      ConfigField("accumulation_steps", kSteps),
      ConfigField("seq_len", kSteps),
      ConfigField("image_size", kSteps),
      {{.name = "bucket_bytes", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Fact("bucket_bytes")},

      {{.name = "step (s)", .section = kHeadline}, &View::step_s},
      {{.name = "delta (%)", .kind = Kind::kPercent, .header = "delta (%)", .section = kHeadline},
       &View::delta_percent},
      {{.name = "sync_cost (s)", .kind = Kind::kPart, .digits = 3, .section = kHeadline},
       CostOf(&Cost::total)},
      {{.name = "sent (MB)", .digits = 3, .section = kHeadline}, Million("sent_bytes_per_step")},
      {{.name = "exposed (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::exposed)},
      {{.name = "own (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::own)},
      {{.name = "tax (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::tax)},
      {{.name = "rest (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, CostOf(&Cost::rest)},
      {{.name = "gathers in forward (s)", .digits = 3, .section = kCosts}, MeanTime("forward_wait_ns")},
      {{.name = "gathers in backward (s)", .digits = 3, .section = kCosts}, MeanTime("backward_wait_ns")},
      {{.name = "reductions (s)", .digits = 3, .section = kCosts},
       [](const View& view) {
         return view.measured().Find("forward_wait_ns") == nullptr ? kNaN : view.row.MeanOf("sync_wait_ns");
       }},
      {{.name = "fraction_cost", .kind = Kind::kFraction, .section = kCosts},
       [](const View& view) { return Scaled(view.cost().total, 1 / view.row.step_s); }},
      {{.name = "skew (s)", .kind = Kind::kPart, .digits = 3, .section = kCosts}, MeanTime(kSkew)},
      {{.name = "verdict", .section = kCosts},
       [](const View& view) {
         const Comparison own = view.comparison();
         if (own.row == nullptr) return view.row.no_verdict;
         return own.verdict == Verdict::kNone ? own.no_verdict : std::string(WordOf(own.verdict));
       }},
      {{.name = "samples", .section = kCosts, .said_once = true}, SamplesOf},

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
         return view.row.MeanOf("comm_busy_ns") > 0 ? 1 - Ratio(view, kWaits, "comm_busy_ns") : kNaN;
       }},
      {{.name = "median_step (s)", .section = kPhases}, TimePercentile("step_ns", 0.5)},
      {{.name = "p90_step (s)", .section = kPhases}, TimePercentile("step_ns", 0.9)},
      {{.name = "p95_step (s)", .section = kPhases, .marked_with = Warning::kTooFewForP95},
       TimePercentile("step_ns", 0.95)},
      {{.name = "p99_step (s)", .section = kPhases, .marked_with = Warning::kTooFewForP99},
       TimePercentile("step_ns", 0.99)},

      {{.name = "collectives", .kind = Kind::kInteger, .section = kWork}, &View::num_collectives},
      {{.name = "sent (B)", .kind = Kind::kInteger, .audience = Audience::kMachines, .section = kWork},
       Fact("sent_bytes_per_step")},
      {{.name = "peak_memory (B/param)", .kind = Kind::kPlain, .section = kWork},
       &View::peak_bytes_per_parameter},
      {{.name = "tokens/s", .digits = 3, .section = kWork}, PerSecond("tokens_per_step")},
      {{.name = "tokens", .kind = Kind::kInteger, .audience = Audience::kMachines}, Fact("tokens_per_step")},
      {{.name = "images/s", .digits = 3, .section = kWork}, PerSecond("images_per_step")},
      {{.name = "GFLOP/s", .digits = 3, .section = kWork},
       [](const View& view) { return 1e-9 * FlopsPerSecond(view); }},
      {{.name = "share_of_peak", .kind = Kind::kFraction, .section = kWork},
       [](const View& view) { return FlopsPerSecond(view) / Fact("peak_flops_per_second")(view); }},
      {{.name = "compute_cpu (s)", .digits = 3, .section = kWork}, RankSeconds("compute_cpu_ns")},
      {{.name = "communication_cpu (s)", .digits = 3, .section = kWork}, RankSeconds("communication_cpu_ns")},
      {{.name = "others_cpu (s)", .digits = 3, .section = kWork},
       [](const View& view) {
         return view.row.MeanOf("others_cpu_ns") / static_cast<double>(view.measured().turn_steps());
       }},

      {{.name = "baseline", .section = kSteps, .said_once = true}, &View::base_variant},
      {{.name = "equals single process", .section = kSteps}, &View::equality},
      {{.name = "grad_rel_error", .audience = Audience::kMachines},
       [](const View& view) { return view.measured().grad_rel_error.value_or(kNaN); }},
      {{.name = "param_rel_error", .audience = Audience::kMachines},
       [](const View& view) { return view.measured().param_rel_error.value_or(kNaN); }},
      {{.name = "warnings", .section = kHeadline}, &View::warnings},
  };
}

Table DdpTable(const std::string& title, Audience audience, const Settings& settings) {
  Fields fields = DdpFields();
  for (Field<View>& field : fields) {
    Column& column = field.column;
    if (!column.name.ends_with(" (s)")) continue;
    column.header = Join(column.name.substr(0, column.name.size() - 2), "ms)");
    column.times = 1e3;
  }
  Append(RunFields(kSteps), &fields);
  TableOf<View> table("ddp", title, std::move(fields), audience);
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) {
      if (row.measured->Find("step_ns") == nullptr) continue;  // published rows may have phases only
      table.Add({at, row});
      if (at.setting->ComparisonOf(row).may_be_fastest) table.MarkLast("variant");
    }
  }
  std::vector<std::string> findings = WriteSentences(MakeAnswers(settings));
  findings.push_back(CostSentence(settings));
  if (std::ranges::all_of(findings, &std::string::empty)) findings = {NoVerdict(settings)};
  findings.push_back(NotCompared(settings));
  std::erase(findings, "");
  if (!findings.empty()) table.AddFinding(absl::StrJoin(findings, " "));
  table.SetSectionTitle(
      kSteps,
      "Steps: means in seconds, of each step's slowest rank; std is the population's. "
      "time_per_sync: from the end of a rank's own backward, so it holds the wait for a later rank");
  table.SetSectionTitle(
      kCosts,
      "sync_cost = exposed + own + tax + rest; gathers and reductions: a rank's waits for weights and "
      "for gradients, of each step's slowest rank; skew: how much earlier than the last rank "
      "the others had computed");
  table.SetSectionTitle(kPhases,
                        "Phases: means in seconds, of each step's slowest rank. overlap = 1 - waits / busy");
  table.SetSectionTitle(
      kWork, "Work and memory; processor seconds are of one rank, others_cpu of all other programs");
  table.AddNote(MachinesText(settings));
  return table;
}

}  // namespace

// Adds tables. Formats for machines have all rows in one table. Users see a table and its sentences for each
// run, and for published figures.
void AddTrainingTables(const Settings& all, std::vector<Table>* tables) {
  constexpr char kTitle[] = "Strategies of gradient synchronisation";
  const std::vector<Run> runs = SplitRuns(all);
  if (runs.empty()) return;
  if (runs.size() > 1) {
    for (const Run& run : runs)
      tables->push_back(DdpTable(Join(kTitle, ": ", run.name), Audience::kPeople, run.settings));
  }
  const Audience audience = runs.size() == 1 ? Audience::kAll : Audience::kMachines;
  tables->push_back(DdpTable(kTitle, audience, SelectTraining(all)));
  Table& last = (*tables)[tables->size() - (runs.size() == 1 ? 1 : 2)];  // the last table for users
  last.AddNote(
      "step: 20 % trimmed mean of the row alone. delta: how much longer a step is than the baseline's over "
      "the same backend. sync_cost: how much longer than the floor's. Both are 20 % trimmed means over "
      "rounds, so they may differ from the difference of two steps. In brackets: 95 % CI, which hold for "
      "all deltas of a setting at once, and for all its costs. Bold: may be fastest.");
}

}  // namespace gradsync::tools
