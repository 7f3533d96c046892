#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

// The tables about buckets of gradients: their sizes, and what becomes of each.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kMebi = 1 << 20;

using Fields = std::vector<Field<View>>;

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
  Fields fields = {{{.name = "buffer_elements (Mi)", .kind = Kind::kPlain}, LabelOf},
                   {{.name = "strategy", .kind = Kind::kText}, Text("strategy")},
                   {{.name = "backend", .kind = Kind::kText, .said_once = true}, Text("backend")},
                   {{.name = "bucket_bytes", .kind = Kind::kInteger}, Number("bucket_bytes")},
                   {{.name = "phase", .kind = Kind::kText},
                    [](const View& view) { return std::string(kSweepPhases[view.part].name); }},
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
                   {{.name = "delta (%)", .kind = Kind::kPercent},
                    [](const View& view) {
                      const bool is_step = &kSweepPhases[view.part] == std::end(kSweepPhases) - 1;
                      return is_step ? Scaled(view.row.against_baseline, 100)
                                     : Estimate{DeltaInPhase(0)(view)};
                    }},
                   {{.name = "buckets", .kind = Kind::kInteger}, NumCollectives},
                   {{.name = "baseline", .kind = Kind::kText},
                    [](const View& view) { return view.base() == nullptr ? "" : view.base()->variant(); }},
                   {{.name = "equals reference", .kind = Kind::kText},
                    [](const View& view) { return EqualityOf(view.measured()); }},
                   {{.name = "model", .kind = Kind::kText, .said_once = true}, Text("model")},
                   {{.name = "batch_size", .kind = Kind::kInteger, .said_once = true}, Number("batch_size")},
                   {{.name = "image_size", .kind = Kind::kInteger, .said_once = true}, Number("image_size")},
                   {{.name = "seq_len", .kind = Kind::kInteger, .said_once = true}, Number("seq_len")},
                   {{.name = "variant", .kind = Kind::kText, .audience = Audience::kMachines},
                    [](const View& view) { return view.row.variant(); }}};
  Append(RunFields(), &fields);
  fields.push_back({{.name = "flags", .kind = Kind::kText}, FlagsOfRow});

  TableOf<View> table("compare", "Strategies over bucket sizes, ms", std::move(fields));
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      for (size_t part = 0; part < std::size(kSweepPhases); ++part) {
        const View view{cell, row, part};
        if (!std::isnan(LabelOf(view)) && !std::isnan(InPhase(0)(view))) table.Add(view);
      }
    }
  }
  if (table.num_rows() == 0) return;
  table.SetDetail();
  table.AddNote(
      "backward ends with the last gradient's computation. backward_and_sync ends when every gradient is "
      "averaged: the backward pass of the published comparison. delta%: against the same statistic of the "
      "baseline at this size.");
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

void AddBucketTables(const std::vector<Cell>& all, std::vector<Table>* tables) {
  const std::vector<Cell> cells = TrainingOf(all);
  AddSweepTable(cells, tables);
  AddBucketsTable(cells, tables);
}

}  // namespace gradsync::tools
