#include "tools/records/measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using bench::Fields;
using bench::Record;
using bench::Value;

// The larger one; NaN if either is, because an error that is no number is the worst.
void TakeWorst(const Fields& checks, std::string_view name, std::optional<double>* worst) {
  if (checks.Find(name) == nullptr) return;
  const double error = checks.DoubleOr(name, 0);
  if (!*worst || std::isnan(error) || error > **worst) *worst = error;
}

void TakeIfAll(const Fields& checks, std::string_view name, std::optional<bool>* all) {
  if (checks.Find(name) != nullptr) *all = all->value_or(true) && checks.BoolOr(name, false);
}

void TakeChecks(const Fields& checks, Measurement* measurement) {
  TakeWorst(checks, "grad_rel_error", &measurement->grad_rel_error);
  TakeWorst(checks, "param_rel_error", &measurement->param_rel_error);
  TakeIfAll(checks, "grads_equal", &measurement->grads_equal);
  TakeIfAll(checks, "params_equal", &measurement->params_equal);
  TakeIfAll(checks, "replicas_equal", &measurement->replicas_equal);
  if (checks.Find("wrong_elements") != nullptr) {
    measurement->wrong_elements = measurement->wrong_elements.value_or(0) + checks.IntOr("wrong_elements", 0);
  }
}

void TakeSamples(const Record& rank, Measurement* measurement) {
  std::vector<double> seconds(measurement->num_steps);
  for (const auto& [name, samples_ns] : rank.samples) {
    Series& series = measurement->series[name];
    series.max.resize(measurement->num_steps, std::numeric_limits<double>::lowest());
    for (size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] = 1e-9 * static_cast<double>(samples_ns[i]);
      series.max[i] = std::max(series.max[i], seconds[i]);
    }
    series.rank_means.push_back(Mean(seconds));
    series.rank_stds.push_back(PopulationStd(seconds));
  }
}

PublishedStatistics StatisticsOf(const Fields& fields) {
  const auto seconds = [&](std::string_view name) {
    return 1e-9 * fields.DoubleOr(name, std::numeric_limits<double>::quiet_NaN());
  };
  return {.mean = seconds("mean_ns"),
          .std = seconds("std_ns"),
          .median = seconds("median_ns"),
          .p90 = seconds("p90_ns"),
          .p95 = seconds("p95_ns"),
          .p99 = seconds("p99_ns"),
          .n = static_cast<size_t>(std::max<int64_t>(0, fields.IntOr("n", 0)))};
}

void TakePublished(const Record& rank, Measurement* measurement) {
  for (const auto& [name, fields] : rank.published) {
    Series& series = measurement->series[name];
    series.published = StatisticsOf(fields);
    series.rank_means = {series.published->mean};
    series.rank_stds = {series.published->std};
    measurement->num_steps = series.published->n;
  }
}

// A new one, that holds memory for a record and for series.
Measurement WithMemoryOf(Measurement* used) {
  Measurement measurement;
  measurement.record = std::move(used->record);
  measurement.series = std::move(used->series);
  for (auto& [name, series] : measurement.series) {
    series.max.clear();
    series.rank_means.clear();
    series.rank_stds.clear();
    series.published.reset();
  }
  return measurement;
}

size_t StepsOf(const Record& rank) { return rank.samples.empty() ? 0 : rank.samples.begin()->second.size(); }

}  // namespace

double Series::mean() const { return published ? published->mean : Mean(max); }

double Series::std() const { return published ? published->std : PopulationStd(max); }

double Series::percentile(double p) const {
  if (!published) return Percentile(max, p);
  if (p == 0.5) return published->median;
  if (p == 0.9) return published->p90;
  if (p == 0.95) return published->p95;
  return p == 0.99 ? published->p99 : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> Series::percentiles(std::initializer_list<double> ps) const {
  std::vector<double> results;
  if (published) {
    for (const double p : ps) results.push_back(percentile(p));
  } else {
    results.resize(ps.size());
    Percentiles(max, {ps.begin(), ps.size()}, results);
  }
  return results;
}

size_t Series::num_steps() const { return published ? published->n : max.size(); }

const Series* Measurement::Find(std::string_view name) const {
  const auto found = series.find(name);
  return found == series.end() ? nullptr : &found->second;
}

std::optional<bool> Measurement::equal() const {
  if (!grads_equal && !params_equal && !replicas_equal) return std::nullopt;
  return grads_equal.value_or(true) && params_equal.value_or(true) && replicas_equal.value_or(true);
}

Measurement CombineRanks(std::vector<Record> ranks) {
  Measurement measurement;
  CombineRanks(ranks, &measurement);
  return measurement;
}

void CombineRanks(std::span<Record> ranks, Measurement* used) {
  Measurement measurement = WithMemoryOf(used);
  measurement.num_ranks = static_cast<int64_t>(ranks.size());
  measurement.num_steps = StepsOf(ranks.front());
  for (const Record& rank : ranks) {
    const size_t num_steps = StepsOf(rank);
    measurement.steps_differ |= num_steps != StepsOf(ranks.front());
    measurement.num_steps = std::min(measurement.num_steps, num_steps);
  }
  std::map<std::string, int64_t> hosts;
  std::map<std::string, int64_t> gpus;
  for (const Record& rank : ranks) {
    TakeSamples(rank, &measurement);
    TakePublished(rank, &measurement);
    TakeChecks(rank.checks, &measurement);
    measurement.ranks_on_host = std::max(measurement.ranks_on_host, ++hosts[rank.provenance.host]);
    // What a rank counted, and what the records show: either may lack ranks.
    measurement.ranks_on_gpu = std::max(measurement.ranks_on_gpu, rank.facts.IntOr("ranks_per_gpu", 0));
    const std::string gpu = rank.facts.StringOr("gpu_uuid", "");
    if (!gpu.empty()) measurement.ranks_on_gpu = std::max(measurement.ranks_on_gpu, ++gpus[gpu]);
  }
  // Those of another measurement.
  std::erase_if(measurement.series, [](const auto& series) { return series.second.rank_means.empty(); });
  measurement.record.samples.swap(ranks.front().samples);
  std::swap(measurement.record, ranks.front());
  *used = std::move(measurement);
}

}  // namespace gradsync::tools
