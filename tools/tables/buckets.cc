#include <algorithm>
#include <cmath>

#include "tools/tables/all_tables.h"
#include "tools/tables/views.h"

// The sweep over sizes of buckets: strategies phase by phase, with the columns of the published comparison.
namespace gradsync::tools {
namespace {

constexpr double kMebi = 1 << 20;

constexpr struct {
  const char* name;
  SampleName samples;
} kSweepPhases[] = {{"forward", "forward_ns"},
                    {"backward", "backward_ns"},
                    {"backward_and_sync", "backward_and_sync_ns"},
                    {"step", "step_ns"}};

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

}  // namespace

void AddBucketTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  std::vector<Field<View>> fields = {
      {{.name = "buffer_elements (Mi)", .kind = Kind::kPlain},
       [](const View& view) { return LabelOf(view.measured()) / kMebi; }},
      {{.name = "strategy", .kind = Kind::kText}, [](const View& view) { return view.row.strategy(); }},
      {{.name = "backend", .kind = Kind::kText, .said_once = true},
       [](const View& view) { return view.row.backend(); }},
      {{.name = "bucket_bytes", .kind = Kind::kInteger}, Fact("bucket_bytes")},
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
        if (LabelOf(*row.measured) > 0 && !std::isnan(InPhase(0)(view))) table.Add(view);
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

}  // namespace gradsync::tools
