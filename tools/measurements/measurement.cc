#include "tools/measurements/measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_join.h"
#include "bench/records/schema.h"
#include "bench/records/step_times.h"
#include "model/base/error.h"
#include "model/base/statistics.h"

namespace gradsync::tools {
namespace {

using bench::CheckFields;
using bench::CheckName;
using bench::Record;
using bench::StepTimes;

size_t StepsOf(const Record& rank) { return rank.samples.empty() ? 0 : rank.samples.begin()->second.size(); }

// Keeps the larger error; NaN if one is NaN, because a NaN is the worst error.
void TakeWorse(std::optional<double> error, std::optional<double>* worst) {
  if (!error || (*worst && std::isnan(**worst))) return;
  if (!*worst || std::isnan(*error) || *error > **worst) *worst = error;
}

void TakeIfBoth(std::optional<bool> is_so, std::optional<bool>* all) {
  if (is_so) *all = all->value_or(true) && *is_so;
}

void TakeWorst(const CheckFields& checks, CheckName name, std::optional<double>* worst) {
  if (checks.Find(name) != nullptr) TakeWorse(checks.DoubleOr(name, 0), worst);
}

void TakeIfAll(const CheckFields& checks, CheckName name, std::optional<bool>* all) {
  if (checks.Find(name) != nullptr) TakeIfBoth(checks.BoolOr(name, false), all);
}

void TakeChecks(const CheckFields& checks, Measurement* measurement) {
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
  const bool is_floor = rank.variant.qualified_strategy() == rank.facts.StringOr("floor", "-");
  for (const auto& [name, samples_ns] : rank.samples) {
    Series& series = measurement->series[name];
    series.max.resize(measurement->num_steps, std::numeric_limits<double>::lowest());
    for (size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] = 1e-9 * static_cast<double>(samples_ns[i]);
      series.max[i] = std::max(series.max[i], seconds[i]);
    }
    if (is_floor && (name == SampleName("step_ns").text() || name == kComputed.text()))
      series.by_rank.push_back(seconds);
    series.rank_means.push_back(Mean(seconds));
    series.rank_stds.push_back(PopulationStd(seconds));
  }
}

using Samples = std::vector<int64_t>;

constexpr struct {
  SampleName name;
  StepTimes::Part (StepTimes::*sum)() const;
} kSums[] = {{kComputed, &StepTimes::computed},
             {kWorked, &StepTimes::worked},
             {kAveraged, &StepTimes::averaged},
             {kWaits, &StepTimes::waits},
             {"backward_and_sync_ns", &StepTimes::after_forward},
             {"step_ns", &StepTimes::step}};
// The samples that are counted from the beginning of the step.
constexpr SampleName kSinceBegin[] = {"step_ns", kComputed, kWorked, kAveraged};

void AddSums(Record* rank) {
  bench::SampleSeries sums;
  for (size_t i = 0; i < StepsOf(*rank); ++i) {
    const StepTimes times = bench::TimesAt(rank->samples, i);
    for (const auto& [name, sum] : kSums) {
      if (const StepTimes::Part value = (times.*sum)()) sums[name].push_back(*value);
    }
  }
  for (const auto& [name, values] : sums) rank->samples[SampleName::Of(name)] = values;
}

// Makes the steps of a machine's ranks begin when the last of these ranks has left the barrier. Only clocks
// of one machine can be compared. If a turn has several steps, times are means over the steps, so each step
// has its part of the delay of the last rank.
void Align(std::vector<Record>* ranks) {
  std::map<std::string, Samples> last;  // by machine: begin of the last rank
  for (const Record& rank : *ranks) {
    const Samples* const begins = rank.samples.Find("begin_ns");
    if (begins == nullptr) return;
    Samples& own = last.try_emplace(MachineOf(rank), *begins).first->second;
    own.resize(std::min(own.size(), begins->size()));
    for (size_t i = 0; i < own.size(); ++i) own[i] = std::max(own[i], (*begins)[i]);
  }
  for (Record& rank : *ranks) {
    Samples earlier = last[MachineOf(rank)];
    const Samples& begins = rank.samples["begin_ns"];
    const int64_t num_steps = std::max<int64_t>(1, rank.facts.IntOr("period", 1));
    for (size_t i = 0; i < earlier.size(); ++i)
      earlier[i] = (begins[i] - earlier[i]) / num_steps;  // at most 0
    for (const SampleName name : kSinceBegin) {
      if (!rank.samples.contains(name)) continue;
      Samples& sums = rank.samples[name];
      for (size_t i = 0; i < std::min(earlier.size(), sums.size()); ++i) sums[i] += earlier[i];
    }
  }
}

void TakeSkew(const std::vector<Record>& ranks, Measurement* measurement) {
  const auto knows = [](const Record& rank) { return rank.samples.Find(kComputed) != nullptr; };
  if (!std::ranges::all_of(ranks, knows)) return;
  Series& skew = measurement->series[std::string(kSkew.text())];
  const double others = std::max(1.0, static_cast<double>(ranks.size()) - 1);
  for (size_t i = 0; i < measurement->num_steps; ++i) {
    int64_t last_ns = 0;
    int64_t sum_ns = 0;
    for (const Record& rank : ranks) {
      const int64_t own_ns = (*rank.samples.Find(kComputed))[i];
      last_ns = std::max(last_ns, own_ns);
      sum_ns += own_ns;
    }
    const int64_t earlier_ns = static_cast<int64_t>(ranks.size()) * last_ns - sum_ns;
    skew.max.push_back(1e-9 * static_cast<double>(earlier_ns) / others);
  }
  skew.rank_means = {Mean(skew.max)};
  skew.rank_stds = {PopulationStd(skew.max)};
}

PublishedStatistics StatisticsOf(const bench::FieldsOf<bench::RecordPart::kPublished>& fields) {
  const auto seconds = [&](bench::NameIn<bench::RecordPart::kPublished> name) {
    return 1e-9 * fields.DoubleOr(name, kNaN);
  };
  return {.mean = seconds("mean_ns"),
          .std = seconds("std_ns"),
          .percentiles = {{0.5, seconds("median_ns")},
                          {0.9, seconds("p90_ns")},
                          {0.95, seconds("p95_ns")},
                          {0.99, seconds("p99_ns")}},
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

std::string TextOf(const bench::Value& value) {
  if (const bool* const flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::visit([](const auto& held) { return Join(held); }, value);
}

}  // namespace

double Series::mean() const { return published ? published->mean : Mean(max); }

double Series::std() const { return published ? published->std : PopulationStd(max); }

double Series::percentile(double p) const {
  if (!published) return Percentile(max, p);
  const auto found = published->percentiles.find(p);
  return found == published->percentiles.end() ? kNaN : found->second;
}

size_t Series::num_steps() const { return published ? published->n : max.size(); }

const Series* Measurement::Find(SampleName name) const {
  const auto found = series.find(name.text());
  return found == series.end() ? nullptr : &found->second;
}

std::optional<bool> Measurement::equal() const {
  if (!grads_equal && !params_equal && !replicas_equal) return std::nullopt;
  return grads_equal.value_or(true) && params_equal.value_or(true) && replicas_equal.value_or(true);
}

Stage Measurement::stage() const {
  const std::string stage = record.facts.StringOr("stage", "");
  return stage == "choosing" ? Stage::kChoosing : stage == "deciding" ? Stage::kDeciding : Stage::kNone;
}

Configuration SettingOf(const Record& record) {
  Configuration setting;
  for (const auto& [name, value] : record.config) {
    if (bench::ScopeOf(name) == bench::Scope::kSetting) setting[name] = TextOf(value);
  }
  return setting;
}

Configuration ConfigurationOf(const Record& record) {
  Configuration configuration = SettingOf(record);
  configuration["variant"] = record.variant.name();
  for (const auto& [name, value] : record.config) {
    if (bench::ScopeOf(name) == bench::Scope::kTrial) configuration[name] = TextOf(value);
  }
  return configuration;
}

std::string KeyOf(const Configuration& configuration) {
  return absl::StrJoin(configuration, "\n", absl::PairFormatter("="));
}

Measurement CombineRanks(std::vector<Record> ranks) {
  Measurement measurement;
  measurement.num_ranks = static_cast<int64_t>(ranks.size());
  const auto [fewest, most] = std::ranges::minmax_element(ranks, {}, StepsOf);
  measurement.num_steps = StepsOf(*fewest);
  measurement.launches = {{ranks.front().run_id, measurement.num_steps}};
  measurement.steps_differ = measurement.num_steps != StepsOf(*most);
  std::map<std::string, int64_t> machines;
  std::map<std::string, int64_t> gpus;
  std::vector<std::string> nodes;
  for (Record& rank : ranks) AddSums(&rank);
  Align(&ranks);
  for (Record& rank : ranks) {
    TakeSamples(rank, &measurement);
    TakePublished(rank, &measurement);
    TakeChecks(rank.checks, &measurement);
    measurement.ranks_on_host = std::max(measurement.ranks_on_host, ++machines[MachineOf(rank)]);
    nodes.push_back(rank.facts.StringOr("numa_node", "?"));
    measurement.cpu_periods = std::max(measurement.cpu_periods, rank.facts.IntOr("cpu_periods", 0));
    measurement.throttled_periods =
        std::max(measurement.throttled_periods, rank.facts.IntOr("throttled_periods", 0));
    // The count of a rank and the number of records: both may lack ranks.
    measurement.ranks_on_gpu = std::max(measurement.ranks_on_gpu, rank.facts.IntOr("ranks_per_gpu", 0));
    const std::string gpu = rank.facts.StringOr("gpu_uuid", "");
    if (!gpu.empty()) measurement.ranks_on_gpu = std::max(measurement.ranks_on_gpu, ++gpus[gpu]);
  }
  if (std::ranges::adjacent_find(nodes, std::not_equal_to()) != nodes.end())
    measurement.numa_nodes = absl::StrJoin(nodes, ",");
  TakeSkew(ranks, &measurement);
  measurement.record = std::move(ranks.front());
  measurement.record.samples.clear();
  return measurement;
}

void AddLaunch(const Measurement& more, Measurement* measurement) {
  // The fraction of the steps that `more` has.
  const double part = static_cast<double>(more.num_steps) /
                      static_cast<double>(std::max<size_t>(1, more.num_steps + measurement->num_steps));
  std::erase_if(measurement->series,
                [&](const auto& named) { return more.Find(SampleName::Of(named.first)) == nullptr; });
  for (auto& [name, series] : measurement->series) {
    const Series& own = *more.Find(SampleName::Of(name));
    series.max.insert(series.max.end(), own.max.begin(), own.max.end());
    if (series.by_rank.size() != own.by_rank.size()) series.by_rank.clear();
    for (size_t rank = 0; rank < series.by_rank.size(); ++rank) {
      std::vector<double>& steps = series.by_rank[rank];
      steps.insert(steps.end(), own.by_rank[rank].begin(), own.by_rank[rank].end());
    }
    const auto mix = [part](double a, double b) { return (1 - part) * a + part * b; };
    std::ranges::transform(series.rank_means, own.rank_means, series.rank_means.begin(), mix);
    std::ranges::transform(series.rank_stds, own.rank_stds, series.rank_stds.begin(), mix);
  }
  measurement->num_steps += more.num_steps;
  measurement->launches.insert(measurement->launches.end(), more.launches.begin(), more.launches.end());
  measurement->steps_differ |= more.steps_differ;
  measurement->num_ranks = std::min(measurement->num_ranks, more.num_ranks);
  measurement->ranks_on_host = std::max(measurement->ranks_on_host, more.ranks_on_host);
  measurement->ranks_on_gpu = std::max(measurement->ranks_on_gpu, more.ranks_on_gpu);
  if (measurement->numa_nodes.empty()) measurement->numa_nodes = more.numa_nodes;
  measurement->cpu_periods += more.cpu_periods;
  measurement->throttled_periods += more.throttled_periods;
  TakeWorse(more.grad_rel_error, &measurement->grad_rel_error);
  TakeWorse(more.param_rel_error, &measurement->param_rel_error);
  TakeIfBoth(more.grads_equal, &measurement->grads_equal);
  TakeIfBoth(more.params_equal, &measurement->params_equal);
  TakeIfBoth(more.replicas_equal, &measurement->replicas_equal);
  if (more.wrong_elements) {
    measurement->wrong_elements = measurement->wrong_elements.value_or(0) + *more.wrong_elements;
  }
}

}  // namespace gradsync::tools
