#include <algorithm>
#include <cmath>

#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// Tables of the comparison of bucket sizes: the phases of strategies, with the columns of the published
// comparison.
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

// Returns a statistic of the view's phase in ms, and its difference to the baseline.
auto InPhase(double p) {
  return [p](const View& view) {
    const Series* const times = view.measured().Find(kSweepPhases[view.part].samples);
    return times == nullptr ? kNaN : 1e3 * (p == 0 ? times->mean() : times->percentile(p));
  };
}
auto DeltaInPhase(double p) {
  return [p](const View& view) {
    if (view.base() == nullptr) return kNaN;
    return 100 * (InPhase(p)(view) / InPhase(p)({view.at, *view.base(), view.part}) - 1);
  };
}

// A published row, compared with the baseline's buckets of equal label, and of equal bytes.
struct Fair {
  View own;          // View::part is the phase
  const Row& base;   // baseline with an equal label
  const Row& equal;  // baseline with equal bytes

  double Against(const Row& other) const {
    const SampleName samples = kSweepPhases[own.part].samples;
    return own.row.MeanOf(samples) / other.MeanOf(samples) - 1;
  }
};

// Rows with equal labels may have buckets of different sizes. This table compares rows with the baseline's
// buckets of equal bytes.
void AddPublishedTable(const Settings& settings, std::vector<Table>* tables) {
  TableOf<Fair> table("published", "Published differences at equal bytes per bucket",
                      {{{.name = "variant"}, [](const Fair& fair) { return fair.own.row.variant(); }},
                       {{.name = "phase"}, [](const Fair& fair) { return kSweepPhases[fair.own.part].name; }},
                       {{.name = "bucket_bytes", .kind = Kind::kInteger},
                        [](const Fair& fair) { return Fact("bucket_bytes")(fair.own); }},
                       {{.name = "of one label (%)", .kind = Kind::kPercent},
                        [](const Fair& fair) { return 100 * fair.Against(fair.base); }},
                       {{.name = "of equal bytes (%)", .kind = Kind::kPercent},
                        [](const Fair& fair) { return 100 * fair.Against(fair.equal); }},
                       {{.name = "baseline"}, [](const Fair& fair) { return fair.equal.variant(); }}});
  for (const NamedSetting& at : settings) {
    for (const Comparison& comparison : at.setting->comparisons) {
      const Row &row = *comparison.row, &base = *comparison.base;
      if (!row.measured->is_published()) continue;
      const auto bytes = [](const Row& of) { return of.facts().DoubleOr("bucket_bytes", kNaN); };
      const auto equal = std::ranges::find_if(at.setting->rows, [&](const Row& other) {
        return other.strategy() == base.strategy() && bytes(other) == bytes(row);
      });
      if (bytes(base) == bytes(row) || equal == at.setting->rows.end()) continue;
      for (size_t part = 0; part < std::size(kSweepPhases); ++part) {
        const Fair fair{{at, row, part}, base, *equal};
        if (std::isnan(fair.Against(base))) continue;
        table.Add(fair);
      }
    }
  }
  if (table.num_rows() == 0) return;
  table.SetDetail();
  tables->push_back(std::move(table));
}

}  // namespace

void AddBucketTables(const Settings& settings, std::vector<Table>* tables) {
  std::vector<Field<View>> fields = {
      {{.name = "buffer_elements (Mi)", .kind = Kind::kPlain},
       [](const View& view) { return LabelledSize(view.measured()) / kMebi; }},
      {{.name = "strategy"}, &View::strategy},
      {{.name = "backend", .said_once = true}, &View::backend},
      {{.name = "bucket_bytes", .kind = Kind::kInteger}, Fact("bucket_bytes")},
      {{.name = "phase"}, [](const View& view) { return kSweepPhases[view.part].name; }},
      {{.name = "Mean", .digits = 5}, InPhase(0)},
      {{.name = "delta%", .kind = Kind::kPercent}, DeltaInPhase(0)},
      {{.name = "median", .digits = 5}, InPhase(0.5)},
      {{.name = "delta median%", .kind = Kind::kPercent}, DeltaInPhase(0.5)},
      {{.name = "p90", .digits = 5}, InPhase(0.9)},
      {{.name = "delta p90%", .kind = Kind::kPercent}, DeltaInPhase(0.9)},
      {{.name = "p95", .digits = 5, .marked_with = Warning::kTooFewForP95}, InPhase(0.95)},
      {{.name = "delta p95%", .kind = Kind::kPercent}, DeltaInPhase(0.95)},
      {{.name = "p99", .digits = 5, .marked_with = Warning::kTooFewForP99}, InPhase(0.99)},
      {{.name = "delta p99%", .kind = Kind::kPercent}, DeltaInPhase(0.99)},
      {{.name = "buckets", .kind = Kind::kInteger}, &View::num_collectives},
      {{.name = "baseline"}, &View::base_variant},
      {{.name = "equals reference"}, &View::equality},
      {{.name = "model", .said_once = true}, Text("model")},
      ConfigField("batch_size"),
      ConfigField("image_size"),
      ConfigField("seq_len"),
      {{.name = "variant", .audience = Audience::kMachines}, &View::variant}};
  Append(RunFields(), &fields);
  fields.push_back({{.name = "warnings"}, &View::warnings});

  TableOf<View> table("compare", "Strategies over bucket sizes, ms", std::move(fields));
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) {
      for (size_t part = 0; part < std::size(kSweepPhases); ++part) {
        const View view{at, row, part};
        if (LabelledSize(*row.measured) > 0 && !std::isnan(InPhase(0)(view))) table.Add(view);
      }
    }
  }
  if (table.num_rows() == 0) return;
  table.SetDetail();
  table.AddNote(
      "backward ends with the last gradient's computation. backward_and_sync ends when every gradient is "
      "averaged: the backward pass of the published comparison. delta%: against the same statistic of the "
      "baseline at this size.");
  table.AddNote(MachinesText(settings));
  tables->push_back(std::move(table));
  AddPublishedTable(settings, tables);
}

}  // namespace gradsync::tools
