#ifndef GRADSYNC_TOOLS_TABLES_VIEWS_H_
#define GRADSYNC_TOOLS_TABLES_VIEWS_H_

#include <string>
#include <vector>

#include "model/base/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/rows.h"
#include "tools/tables/words.h"

// What columns show of a row.
namespace gradsync::tools {

// A row in its setting, of which a table may show a part: a phase of its step, a bucket.
struct View {
  const NamedSetting& at;
  const Row& row;
  size_t part = 0;

  const Measurement& measured() const { return *row.measured; }
  Comparison comparison() const { return at.setting->ComparisonOf(row); }
  Cost cost() const { return at.setting->CostOf(row); }
  // The variant, with its setting where there are several.
  std::string name() const { return Join(Brief(at.name), at.name.empty() ? "" : ": ", row.variant()); }
  // Null if there is none.
  const Row* base() const { return comparison().base; }

  // What columns show of it.
  std::string variant() const { return row.variant(); }
  std::string backend() const { return row.backend(); }
  std::string strategy() const { return row.strategy(); }
  std::string base_variant() const { return base() == nullptr ? "" : base()->variant(); }
  double step_s() const { return row.step_s; }
  Estimate delta_percent() const { return Scaled(comparison().estimate, 100); }
  Warnings warnings() const { return row.warnings; }
  // Whether it computed what the reference did: "yes", "as its equation", "not checked", "no (1.2e-03)", ...
  std::string equality() const;
  // The number of collectives for the strategy's gradients. Peers do not report theirs.
  double num_collectives() const;
  // Memory of the device at the peak of the timed steps that this variant needs, for each parameter of the
  // model; NaN if the buffers of others were there as well, or nobody knows.
  double peak_bytes_per_parameter() const;
};

// Values of the row: of its configuration and facts (empty, NaN without such a name), and of one kind of
// time, in seconds (NaN without such samples).
inline auto Text(bench::ConfigName name) {
  return [name](const View& view) { return view.row.config().StringOr(name, ""); };
}
inline auto Number(bench::ConfigName name) {
  return [name](const View& view) { return ConfigNumber(view.measured(), name); };
}
inline auto Fact(bench::FactName name) {
  return [name](const View& view) { return view.row.facts().DoubleOr(name, kNaN); };
}
inline auto Million(bench::FactName name) {
  return [name](const View& view) { return 1e-6 * Fact(name)(view); };
}
template <class Statistic>
auto OfTimes(SampleName samples, Statistic statistic) {
  return [=](const View& view) -> double {
    const Series* const series = view.measured().Find(samples);
    return series == nullptr ? kNaN : std::invoke(statistic, *series);
  };
}
inline auto MeanTime(SampleName samples) { return OfTimes(samples, &Series::mean); }
// Population's.
inline auto StdTime(SampleName samples) { return OfTimes(samples, &Series::std); }
inline auto TimePercentile(SampleName samples, double p) {
  return OfTimes(samples, [p](const Series& series) { return series.percentile(p); });
}
// A column of a whole number of the configuration, which people are told once if it is the same in all rows.
inline Field<View> ConfigField(bench::ConfigName name, int section = 0) {
  return {{.name = std::string(name.text()), .kind = Kind::kInteger, .section = section, .said_once = true},
          Number(name)};
}

// What was run, and how often: device, dtype, world_size, threads_per_rank, comm_threads, steps, launches,
// run (the first launch's). People are told once what is the same in all rows.
std::vector<Field<View>> RunFields(int section = 0);

// The settings about training.
Settings TrainingOf(const Settings& settings);
// Those of a run; what others published counts as one.
struct Run {
  std::string name{};   // what tells it from others; empty if there is but one
  Settings settings{};  // named within the run
};
std::vector<Run> RunsOf(const Settings& settings);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_VIEWS_H_
