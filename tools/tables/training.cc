#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/findings.h"
#include "tools/tables/pivot.h"
#include "tools/tables/words.h"

// The tables about training steps. A new column is a line in one of the lists of fields here, a new table one
// more such list; all are of the same rows.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMebi = 1 << 20;

// Sections of the table "ddp". The first is what people see without --details.
enum Section { kHeadline = 1, kSteps, kCosts, kPhases, kWork };

using Fields = std::vector<Field<View>>;

// Of the strategies' gradients; peers tell nothing of them.
double NumCollectives(const View& view) {
  const bool is_told = !view.measured().is_published() && view.measured().Find("comm_busy_ns") != nullptr;
  return is_told ? static_cast<double>(view.measured().record.buckets.size()) : kNaN;
}

double SentBytes(const View& view) {
  double bytes = 0 * NumCollectives(view);
  for (const bench::BucketRecord& bucket : view.measured().record.buckets) {
    bytes += static_cast<double>(bucket.bytes);
  }
  return bytes;
}

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
auto CostOf(Estimate Cost::*part) {
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
      // With its cell where there are several.
      {{.name = "variant", .kind = Kind::kText, .audience = Audience::kPeople, .leads = true},
       [](const View& view) {
         return Join(view.cell.name, view.cell.name.empty() ? "" : ": ", view.row.variant());
       }},
      {{.name = "variant", .kind = Kind::kText, .audience = Audience::kMachines},
       [](const View& view) { return view.row.variant(); }},
      {{.name = "batch_size", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("batch_size")},
      {{.name = "seq_len", .kind = Kind::kInteger, .section = kSteps, .said_once = true}, Number("seq_len")},
      {{.name = "image_size", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("image_size")},
      {{.name = "bucket_bytes", .kind = Kind::kInteger, .section = kSteps, .said_once = true},
       Number("bucket_bytes")},

      {{.name = "step (s)", .section = kHeadline}, [](const View& view) { return view.row.step_s; }},
      {{.name = "delta (%)", .kind = Kind::kPercent, .section = kHeadline},
       [](const View& view) { return Scaled(view.row.against_baseline, 100); }},
      {{.name = "sync_cost (s)", .digits = 3, .section = kHeadline}, CostOf(&Cost::total)},
      {{.name = "exposed (s)", .audience = Audience::kPeople, .digits = 3, .section = kHeadline},
       [](const View& view) { return view.row.cost.exposed.value; }},
      {{.name = "tax + own (s)", .audience = Audience::kPeople, .digits = 3, .section = kHeadline},
       [](const View& view) { return view.row.cost.tax.value + view.row.cost.own.value; }},
      {{.name = "verified", .kind = Kind::kText, .audience = Audience::kPeople, .section = kHeadline},
       [](const View& view) { return EqualityOf(view.measured()); }},

      {{.name = "exposed (s)", .digits = 3, .section = kCosts}, CostOf(&Cost::exposed)},
      {{.name = "own (s)", .digits = 3, .section = kCosts}, CostOf(&Cost::own)},
      {{.name = "tax (s)", .digits = 3, .section = kCosts}, CostOf(&Cost::tax)},
      {{.name = "rest (s)", .digits = 3, .section = kCosts}, CostOf(&Cost::rest)},
      {{.name = "fraction_cost", .kind = Kind::kFraction, .section = kCosts},
       [](const View& view) { return Scaled(view.row.cost.total, 1 / view.row.step_s); }},
      {{.name = "skew (s)", .section = kCosts}, MeanTime(kSkew)},
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
      {{.name = "comm_waiting (s)", .section = kPhases}, MeanTime(kCommWaiting)},
      {{.name = "comm_moving (s)", .section = kPhases}, MeanTime(kCommMoving)},
      {{.name = "median_step (s)", .section = kPhases}, TimePercentile("step_ns", 0.5)},
      {{.name = "p90_step (s)", .section = kPhases}, TimePercentile("step_ns", 0.9)},
      {{.name = "p95_step (s)", .section = kPhases, .marked_with = Flag::kTooFewForP95},
       TimePercentile("step_ns", 0.95)},
      {{.name = "p99_step (s)", .section = kPhases, .marked_with = Flag::kTooFewForP99},
       TimePercentile("step_ns", 0.99)},

      {{.name = "collectives", .kind = Kind::kInteger, .section = kWork}, NumCollectives},
      {{.name = "sent (B)", .kind = Kind::kInteger, .section = kWork}, SentBytes},
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
      {{.name = "grad_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
       [](const View& view) { return view.measured().grad_rel_error.value_or(kNaN); }},
      {{.name = "param_rel_error", .kind = Kind::kScientific, .audience = Audience::kMachines},
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
  if (is_used)
    text += Join(", with the step's own forward as covariate (coefficient ", Fixed(cell.coefficient, 2), ")");
  if (is_used && !without.empty()) {
    text += Join("; not of ", Listed(without), ", whose forward differs from the floor's");
  }
  return text + ".";
}

void AddDdpTable(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  Fields fields = DdpFields();
  Append(RunFields(kSteps), &fields);
  TableOf<View> table("ddp", "Strategies of gradient synchronisation", std::move(fields));
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (row.measured->Find("step_ns") == nullptr) continue;  // only phases were published
      table.Add({cell, row});
      if (row.may_be_fastest) table.MarkLast("variant");
    }
  }
  if (table.num_rows() == 0) return;
  for (std::string& sentence : TrainingSentences(cells)) table.AddFinding(std::move(sentence));
  for (const Cell& cell : cells) {
    if (cells.size() <= 3 && cell.num_rounds > 0 && cell.void_reason.empty()) table.AddNote(MethodOf(cell));
  }
  table.AddNote(
      "delta: against the baseline's step over the same backend; sync_cost: how much longer than the floor's "
      "step. In brackets: simultaneous 95 % CI, of all deltas of a cell, and of all costs. Bold: not shown "
      "slower than any other row with this baseline.");
  table.SetSectionTitle(
      kSteps,
      "Steps: means in seconds, of each step's slowest rank; std is the population's. "
      "time_per_sync: from the end of a rank's own backward, so it holds the wait for a later rank");
  table.SetSectionTitle(
      kCosts,
      "sync_cost = exposed + own + tax + rest, each with its own 95 % CI, simultaneous among "
      "parts; skew: how much earlier than the last rank the others had computed");
  table.SetSectionTitle(
      kPhases, "Phases: means in seconds, of each step's slowest rank. overlap = 1 - exposed / busy");
  table.SetSectionTitle(
      kWork, "Work and memory; processor seconds are of one rank, others_cpu of all other programs");
  tables->push_back(std::move(table));
}

// Of a run, several places of a batch size and a sequence length.
void AddGridTable(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  constexpr char kStep[] = "total time train", kSync[] = "total time grad all reduce",
                 kRatio[] = "ratio grad all reduce to train time", kShare[] = "fraction_cost";
  const Fields place = {
      {{.name = "local_bs", .kind = Kind::kInteger}, Number("batch_size")},
      {{.name = "seq_len", .kind = Kind::kInteger}, Number("seq_len")},
  };
  const Fields values = {
      {{.name = kStep}, MeanTime("step_ns")},
      {{.name = kSync}, MeanTime("sync_exposed_ns")},
      {{.name = kRatio, .kind = Kind::kFraction},
       [](const View& view) { return Ratio(view, "sync_exposed_ns", "step_ns"); }},
      {{.name = kShare, .kind = Kind::kFraction},
       [](const View& view) { return Scaled(view.row.cost.total, 1 / view.row.step_s); }},
  };
  Fields fields = place;
  Append(values, &fields);
  fields.push_back({{.name = "strategy", .kind = Kind::kText}, Text("strategy")});
  fields.push_back(
      {{.name = "variant", .kind = Kind::kText}, [](const View& view) { return view.row.variant(); }});
  fields.push_back({{.name = "model", .kind = Kind::kText}, Text("model")});
  fields.push_back({{.name = "backend", .kind = Kind::kText}, Text("backend")});
  Append(RunFields(), &fields);
  fields.push_back({{.name = "flags", .kind = Kind::kText}, FlagsOfRow});

  std::map<std::string, std::vector<View>> grids;  // by run and model
  for (const Cell& cell : cells) {
    const std::string run =
        cell.any().measured->record.run_id + " " + cell.any().config().StringOr("model", "");
    for (const Row& row : cell.rows) grids[run].push_back({cell, row});
  }
  std::vector<View> views;
  for (const auto& [run, own] : grids) {
    std::set<std::pair<double, double>> places;
    for (const View& view : own) {
      places.emplace(Number("batch_size")(view),
                     std::isnan(Number("seq_len")(view)) ? 0 : Number("seq_len")(view));
    }
    if (places.size() < 2) continue;
    for (const View& view : own) views.push_back(view);
  }
  if (views.empty()) return;
  const auto heading_of = [&](const View& view) {
    return view.row.variant() + (grids.size() > 1 ? " (" + view.measured().record.run_id + ")" : "");
  };
  tables->push_back(
      Pivot({"grid_side_by_side", "Batch size x sequence length"}, views, place, heading_of, values));
  TableOf<View> table("grid", "Batch size x sequence length", std::move(fields), Audience::kMachines);
  for (const View& view : views) table.Add(view);
  tables->push_back(std::move(table));
}

struct Phase {
  const char* name;
  const char* samples;
};
constexpr Phase kSweepPhases[] = {{"forward", "forward_ns"},
                                  {"backward", "backward_ns"},
                                  {"backward_and_sync", "backward_and_sync_ns"},
                                  {"step", "step_ns"}};

// The size on the label, in Mi.
double LabelOf(const View& view) {
  const double elements = Number("bucket_elements")(view);
  return (std::isnan(elements) ? Number("published_size")(view) : elements) / kMebi;
}

// A statistic of the view's phase in ms, and its difference to the baseline's.
auto InPhase(double p) {
  return [p](const View& view) {
    const Series* const times = view.measured().Find(kSweepPhases[view.part].samples);
    return times == nullptr ? kNaN : 1e3 * (p == 0 ? times->mean() : times->percentile(p));
  };
}
auto DeltaInPhase(double p) {
  return [p](const View& view) {
    if (view.base() == nullptr) return kNaN;
    return 100 * (InPhase(p)(view) / InPhase(p)({view.cell, *view.base(), view.part}) - 1);
  };
}

// Strategies over bucket sizes, phase by phase, with the published comparison's columns.
void AddSweepTable(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  const Fields size = {
      {{.name = "buffer_elements (Mi)", .kind = Kind::kPlain}, LabelOf},
      {{.name = "strategy", .kind = Kind::kText}, Text("strategy")},
      {{.name = "backend", .kind = Kind::kText, .said_once = true}, Text("backend")},
      {{.name = "bucket_bytes", .kind = Kind::kInteger}, Number("bucket_bytes")},
  };
  const Fields values = {
      {{.name = "Mean", .digits = 5}, InPhase(0)},
      {{.name = "delta%", .kind = Kind::kPercent}, DeltaInPhase(0)},
      {{.name = "median", .digits = 5}, InPhase(0.5)},
      {{.name = "delta median%", .kind = Kind::kPercent}, DeltaInPhase(0.5)},
      {{.name = "p90", .digits = 5}, InPhase(0.9)},
      {{.name = "delta p90%", .kind = Kind::kPercent}, DeltaInPhase(0.9)},
      {{.name = "p95", .digits = 5, .marked_with = Flag::kTooFewForP95}, InPhase(0.95)},
      {{.name = "delta p95%", .kind = Kind::kPercent}, DeltaInPhase(0.95)},
      {{.name = "p99", .digits = 5, .marked_with = Flag::kTooFewForP99}, InPhase(0.99)},
      {{.name = "delta p99%", .kind = Kind::kPercent}, DeltaInPhase(0.99)},
  };
  const auto phase_of = [](const View& view) { return std::string(kSweepPhases[view.part].name); };
  Fields fields = size;
  fields.push_back({{.name = "phase", .kind = Kind::kText}, phase_of});
  Append(values, &fields);
  Append<Field<View>>(
      {
          {{.name = "delta (%)", .kind = Kind::kPercent},
           [](const View& view) {
             const bool is_step = &kSweepPhases[view.part] == std::end(kSweepPhases) - 1;
             return is_step ? Scaled(view.row.against_baseline, 100) : Estimate{DeltaInPhase(0)(view)};
           }},
          {{.name = "buckets", .kind = Kind::kInteger}, NumCollectives},
          {{.name = "baseline", .kind = Kind::kText},
           [](const View& view) { return view.base() == nullptr ? "" : view.base()->variant(); }},
          {{.name = "equals reference", .kind = Kind::kText},
           [](const View& view) { return EqualityOf(view.measured()); }},
          {{.name = "model", .kind = Kind::kText}, Text("model")},
          {{.name = "batch_size", .kind = Kind::kInteger}, Number("batch_size")},
          {{.name = "image_size", .kind = Kind::kInteger}, Number("image_size")},
          {{.name = "seq_len", .kind = Kind::kInteger}, Number("seq_len")},
          {{.name = "variant", .kind = Kind::kText}, [](const View& view) { return view.row.variant(); }},
      },
      &fields);
  Append(RunFields(), &fields);
  fields.push_back({{.name = "flags", .kind = Kind::kText}, FlagsOfRow});

  TableOf<View> table("compare", "Strategies over bucket sizes", std::move(fields), Audience::kMachines);
  std::vector<View> views;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      for (size_t part = 0; part < std::size(kSweepPhases); ++part) {
        const View view{cell, row, part};
        if (std::isnan(LabelOf(view)) || std::isnan(InPhase(0)(view))) continue;
        table.Add(view);
        views.push_back(view);
      }
    }
  }
  if (views.empty()) return;
  Table wide =
      Pivot({"compare_by_phase", "Strategies over bucket sizes, ms", true}, views, size, phase_of, values);
  wide.AddNote(
      "backward ends with the last gradient's computation. backward_and_sync ends when every gradient is "
      "averaged: "
      "the backward pass of the published comparison. delta%: against the same statistic of the baseline at "
      "this "
      "size.");
  tables->push_back(std::move(wide));
  tables->push_back(std::move(table));
}

void AddBucketsTable(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  constexpr size_t kMostForPeople = 40;
  const auto seconds = [](double BucketTimes::*time) {
    return [time](const View& view) { return view.measured().buckets[view.part].*time; };
  };
  const auto told = [](int64_t bench::BucketRecord::*what) {
    return [what](const View& view) { return view.measured().record.buckets[view.part].*what; };
  };
  const auto make = [&](Audience audience) {
    return TableOf<View>(
        "buckets", "Buckets: when they are ready, and what of them the step waits for",
        {
            {{.name = "variant", .kind = Kind::kText}, [](const View& view) { return view.row.variant(); }},
            {{.name = "strategy", .kind = Kind::kText, .audience = Audience::kMachines}, Text("strategy")},
            {{.name = "model_size", .kind = Kind::kText, .said_once = true}, Text("model")},
            {{.name = "batch_size", .kind = Kind::kInteger, .said_once = true}, Number("batch_size")},
            {{.name = "seq_len", .kind = Kind::kInteger, .said_once = true}, Number("seq_len")},
            {{.name = "bucket", .kind = Kind::kInteger}, &View::part},
            {{.name = "bytes", .kind = Kind::kInteger}, told(&bench::BucketRecord::bytes)},
            {{.name = "tensors", .kind = Kind::kInteger}, told(&bench::BucketRecord::tensors)},
            {{.name = "ready (s)"}, seconds(&BucketTimes::ready)},
            {{.name = "queued (s)"}, seconds(&BucketTimes::queued)},
            {{.name = "waiting (s)"}, seconds(&BucketTimes::waiting)},
            {{.name = "moving (s)"}, seconds(&BucketTimes::moving)},
            {{.name = "ended (s)"}, seconds(&BucketTimes::ended)},
            {{.name = "exposed (s)"}, seconds(&BucketTimes::exposed)},
            {{.name = "run", .kind = Kind::kText, .said_once = true},
             [](const View& view) { return view.measured().record.run_id; }},
        },
        audience);
  };
  std::vector<View> views;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      for (size_t i = 0; i < row.measured->buckets.size(); ++i) views.push_back({cell, row, i});
    }
  }
  if (views.empty()) return;
  TableOf<View> table = make(views.size() > kMostForPeople ? Audience::kMachines : Audience::kAll);
  for (const View& view : views) table.Add(view);
  table.SetDetail();
  const View& most = *std::ranges::max_element(
      views, {}, [](const View& view) { return view.measured().buckets[view.part].exposed; });
  table.AddFinding(Join("The step waits longest for bucket ", most.part, " of ", most.row.variant(), ": ",
                        TimeText(most.measured().buckets[most.part].exposed),
                        " after the last rank had computed."));
  table.AddNote(
      "Means over steps. ready, ended: since the step's beginning, of the last rank. queued: until the "
      "collective was issued; waiting: until the last rank had issued its own; moving: until the last rank "
      "had "
      "the result. exposed: by how much the bucket moved the end of communication after the last rank had "
      "computed.");
  tables->push_back(std::move(table));
}

}  // namespace

void AddTrainingTables(const std::vector<Cell>& all, std::vector<Table>* tables) {
  std::vector<Cell> cells;
  std::ranges::copy_if(all, std::back_inserter(cells),
                       [](const Cell& cell) { return !cell.any().strategy().empty(); });
  AddDdpTable(cells, tables);
  AddGridTable(cells, tables);
  AddSweepTable(cells, tables);
  AddBucketsTable(cells, tables);
}

}  // namespace gradsync::tools
