#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "tools/analysis/rows.h"
#include "tools/analysis/words.h"
#include "tools/tables/parts/fields.h"

// Functions that compute the values of a table's columns from a row of results.
namespace gradsync::tools {

// A Row (the results of one variant, such as "core@gloo") and its setting: all results with the same model
// and configuration. If a table has several lines for one Row, `part` is the number of the line, from 0.
struct View {
  const NamedSetting& at;
  const Row& row;
  size_t part = 0;

  const Measurement& measured() const { return *row.measured; }
  Comparison comparison() const { return at.setting->ComparisonOf(row); }
  Cost cost() const { return at.setting->CostOf(row); }
  // Returns the variant's name, such as "core@gloo" or, if the table has several settings, "tiny b2 s64:
  // core@gloo".
  std::string name() const { return Join(Brief(at.name), at.name.empty() ? "" : ": ", row.variant()); }
  const Row* base() const { return comparison().base; }

  std::string variant() const { return row.variant(); }
  std::string backend() const { return row.backend(); }
  std::string strategy() const { return row.strategy(); }
  std::string base_variant() const { return base() == nullptr ? "" : base()->variant(); }
  double step_s() const { return row.step_s; }
  Estimate delta_percent() const { return Scaled(comparison().estimate, 100); }
  Warnings warnings() const { return row.warnings; }
  // Returns the result of the checks of gradients and weights as a text, such as "yes", "not checked" or "no
  // (1.2e-03)". In "no (1.2e-03)", the number is the largest relative error of the gradients.
  std::string equality() const;
  // Returns the number of the record's buckets, each of which one collective communicates; NaN for peers and
  // publications.
  double num_collectives() const;
  // Returns the peak of the device memory that the variant uses on the lowest rank, in bytes per parameter of
  // the model; NaN if unknown. For a peer, the memory is that of all variants.
  double peak_bytes_per_parameter() const;
};

// Each function from Text to TimePercentile returns a function that computes a column's value from a View.
// Text and Number take the value from the record's configuration, for example the batch size. Fact and
// Million (in millions) take the value from the record's facts, for example the number of parameters.
// OfTimes, MeanTime, StdTime and TimePercentile compute a statistic of the measured times called `samples`,
// in seconds. A missing value is NaN; for Text, a missing value is an empty text.
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
inline auto StdTime(SampleName samples) { return OfTimes(samples, &Series::std); }
inline auto TimePercentile(SampleName samples, double p) {
  return OfTimes(samples, [p](const Series& series) { return series.percentile(p); });
}
inline Field<View> ConfigField(bench::ConfigName name, int section = 0) {
  return {{.name = std::string(name.text()), .kind = Kind::kInteger, .section = section, .said_once = true},
          Number(name)};
}

// Returns columns that tell how each row was measured: device, dtype, world_size, threads_per_rank,
// comm_threads, steps, launches and run (the run id).
std::vector<Field<View>> RunFields(int section = 0);

// Returns those of `settings` in which training was measured, and not single collectives.
Settings SelectTraining(const Settings& settings);
// The training results of one run of a benchmark, or of all publications: a Setting for each model, batch
// size and so on.
struct Run {
  std::string name{};   // empty if there is only one run
  Settings settings{};  // with names that are unique within the run
};
std::vector<Run> SplitRuns(const Settings& settings);

}  // namespace gradsync::tools
