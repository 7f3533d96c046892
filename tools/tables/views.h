#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "tools/analysis/rows.h"
#include "tools/analysis/words.h"
#include "tools/tables/fields.h"

// Functions that compute the values of columns from a row.
namespace gradsync::tools {

// A row in its setting. A table may show a part of a row: a phase of the step, or a bucket.
struct View {
  const NamedSetting& at;
  const Row& row;
  size_t part = 0;

  const Measurement& measured() const { return *row.measured; }
  Comparison comparison() const { return at.setting->ComparisonOf(row); }
  Cost cost() const { return at.setting->CostOf(row); }
  // Returns the text of the variant, with the setting if there are several settings.
  std::string name() const { return Join(Brief(at.name), at.name.empty() ? "" : ": ", row.variant()); }
  // Returns the row's baseline; null if there is none.
  const Row* base() const { return comparison().base; }

  // The following functions return values of columns.
  std::string variant() const { return row.variant(); }
  std::string backend() const { return row.backend(); }
  std::string strategy() const { return row.strategy(); }
  std::string base_variant() const { return base() == nullptr ? "" : base()->variant(); }
  double step_s() const { return row.step_s; }
  Estimate delta_percent() const { return Scaled(comparison().estimate, 100); }
  Warnings warnings() const { return row.warnings; }
  // Returns whether the results equal the reference's results: "yes", "as its equation", "not checked", "no
  // (1.2e-03)", ...
  std::string equality() const;
  // Returns the number of collectives for gradients; peers do not report this number.
  double num_collectives() const;
  // Returns the peak device memory of this variant in timed steps, in bytes per parameter of the model; NaN
  // if the memory includes buffers of other variants, or is unknown.
  double peak_bytes_per_parameter() const;
};

// The following functions return columns' functions for values of the configuration and of facts (empty or
// NaN if the name is missing), and of series of times in seconds (NaN without samples).
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
// The standard deviation of the population.
inline auto StdTime(SampleName samples) { return OfTimes(samples, &Series::std); }
inline auto TimePercentile(SampleName samples, double p) {
  return OfTimes(samples, [p](const Series& series) { return series.percentile(p); });
}
// Returns a column of a whole number of the configuration, which is printed once if it is equal in all rows.
inline Field<View> ConfigField(bench::ConfigName name, int section = 0) {
  return {{.name = std::string(name.text()), .kind = Kind::kInteger, .section = section, .said_once = true},
          Number(name)};
}

// Returns columns about the run: device, dtype, world_size, threads_per_rank, comm_threads, steps, launches,
// run (the run id of the first launch). Values that are equal in all rows are printed once.
std::vector<Field<View>> RunFields(int section = 0);

// Returns the settings about training.
Settings SelectTraining(const Settings& settings);
// The settings of one run. All published figures count as one run.
struct Run {
  std::string name{};   // name that distinguishes the run from other runs; empty if there is only one run
  Settings settings{};  // settings, with names that are unique within the run
};
std::vector<Run> SplitRuns(const Settings& settings);

}  // namespace gradsync::tools
