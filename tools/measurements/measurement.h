#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/records/record.h"

namespace gradsync::tools {

using bench::SampleName;

// Names of times that CombineRanks computes for each rank and training step, as sums of measured times such
// as forward and backward. The ranks of a host leave the barrier before a step at slightly different times.
// If all ranks recorded when they leave the barrier (begin_ns), a rank's times step_ns, computed_ns,
// worked_ns and averaged_ns count from the moment at which the last rank of its host leaves.
inline constexpr auto kComputed = SampleName::Of("computed_ns");  // forward + backward
inline constexpr auto kWorked = SampleName::Of("worked_ns");      // computed_ns + the strategy's own work
inline constexpr auto kAveraged = SampleName::Of("averaged_ns");  // worked_ns + all waits for communication
// How long a rank waits for communication in a step: the sum of all its waits. The waits include the time in
// which the rank waits because other ranks still compute.
inline constexpr auto kWaits = SampleName::Of("sync_exposed_ns");
// For each step: the largest computed_ns of all ranks (that of the slowest rank), minus the mean computed_ns
// of all ranks except the slowest.
inline constexpr auto kSkew = SampleName::Of("skew_ns");

// Statistics of a time, in seconds, from a publication that does not have the times of single steps. A
// statistic is NaN if the publication lacks it.
struct PublishedStatistics {
  double mean = 0;
  double std = 0;
  std::map<double, double> percentiles{};  // by 0.5, 0.9, 0.95 or 0.99
  size_t n = 0;                            // number of steps; 0 if unknown
};

// The values with one name, such as "forward_ns" (the time of forward), in all steps of a measurement, in
// seconds.
struct Series {
  // `max` has, for each step, the largest of all ranks' values, because a step ends when the last rank has
  // finished. Only in the series skew_ns (kSkew), `max` has the mean of the values of all ranks but the
  // slowest. The maxima of a step's parts may add up to more than the step, because different ranks may be
  // the slowest in different parts.
  std::vector<double> max;
  // by_rank[r][i] is the time of rank r in step i of the measurement. by_rank is empty for strategies that
  // communicate, and in all series but step_ns and computed_ns. by_rank, the times of each rank, is also
  // empty if launches differ in the number of ranks.
  std::vector<std::vector<double>> by_rank;
  // rank_means[r] and rank_stds[r] are the mean and the standard deviation of the times of rank r, in
  // seconds, over the steps that all ranks have. In the series skew_ns (kSkew), and in series of times from a
  // publication, each vector has only one element, for all ranks together. With several launches,
  // rank_stds[r] is the mean of the launches' standard deviations, weighted by each launch's number of steps.
  std::vector<double> rank_means;
  std::vector<double> rank_stds;  // population
  std::optional<PublishedStatistics> published;

  // mean(), std(), percentile() and num_steps() return statistics of `max` (each step's time on its slowest
  // rank), or the published statistics if the times are from a publication.
  double mean() const;
  double std() const;  // population
  // Returns the p-quantile of the steps' times: for p = 0.95, the time that about 95 % of the steps do not
  // exceed. Returns NaN if the times are from a publication that does not state this quantile.
  double percentile(double p) const;
  size_t num_steps() const;
};

// A launch is one start of all ranks as new processes. With --repeats, a run of a benchmark has several
// launches.
struct Launch {
  std::string run_id;
  size_t num_steps = 0;

  bool operator==(const Launch&) const = default;
};

// With the flag --choose, a benchmark is launched several times. The first launch (kChoosing) measures all
// strategies. The later launches (kDeciding) leave out a strategy if the first launch shows in every setting
// (model, batch size, ...) that some other strategy is faster, but they never leave out the baseline. kNone:
// the launch was made without --choose.
enum class Stage { kNone, kChoosing, kDeciding };

// The records of all ranks about one configuration (strategy, model, batch size, ...), combined.
struct Measurement {
  // The record of the rank with the lowest number in the first launch, without lists of measured times.
  bench::Record record;
  std::map<std::string, Series, std::less<>> series;  // series by names of samples
  size_t num_steps = 0;
  std::vector<Launch> launches;  // at least one; their steps follow each other in `series`
  bool steps_differ = false;     // some ranks have more steps; only steps that all ranks have are used
  int64_t num_ranks = 0;         // number of ranks with records
  int64_t ranks_on_host = 0;     // largest number of ranks on one machine
  int64_t ranks_on_gpu = 0;      // largest number of ranks on one GPU
  std::string numa_nodes;        // of each rank, such as "0,1"; empty if all are equal
  // A container may have a quota of CPU time for each period of, say, 100 ms. cpu_periods is the number of
  // periods of this CPU quota during the run. throttled_periods is the number of periods in which the
  // container used up its CPU quota. Both numbers are maxima over ranks, summed over launches; they are 0
  // without a CPU quota.
  int64_t cpu_periods = 0, throttled_periods = 0;

  // Results of the benchmark's checks on all ranks: the largest errors of gradients and of parameters (NaN if
  // an error is NaN on any rank); whether all gradients are within the tolerance; whether all parameters are
  // within the tolerance; whether all ranks have equal gradients and parameters; and how many elements of
  // collectives' results are wrong, summed over ranks. The member for a check is empty if no rank made the
  // check.
  std::optional<double> grad_rel_error;
  std::optional<double> param_rel_error;
  std::optional<bool> grads_equal;
  std::optional<bool> params_equal;
  std::optional<bool> replicas_equal;
  std::optional<int64_t> wrong_elements;

  // Returns the element of the member `series` whose key is `name`, such as "forward_ns"; null if none.
  const Series* Find(SampleName name) const;
  bool is_published() const { return !record.published.empty(); }
  // Returns false if at least one of the checks grads_equal, params_equal and replicas_equal failed; empty if
  // none of them was made; else true.
  std::optional<bool> equal() const;
  std::string strategy() const { return record.variant.qualified_strategy(); }
  // Returns the strategy with its options and backend: "core@gloo". In the benchmark of collectives, returns
  // only the backend: "gloo".
  std::string variant() const { return record.variant.name(); }
  // Returns the name of the strategy without communication, such as "none", with whose steps the steps of
  // other strategies are compared to find the cost of communication; empty if the record has no such name.
  std::string floor() const { return record.facts.StringOr("floor", ""); }
  // Returns whether the measured strategy is the one without communication.
  bool is_floor() const { return !strategy().empty() && strategy() == floor(); }
  // Returns whether the strategy computes, by design, the gradients that one process computes on the batches
  // of all ranks; true if unknown.
  bool is_exact() const { return record.facts.StringOr("agreement", "exact") == "exact"; }
  // Returns whether the ranks' weights become different by design, because in some steps, or in all, the
  // ranks average neither gradients nor weights.
  bool drifts() const { return is_floor() || record.facts.StringOr("agreement", "") == "drifts"; }
  bool is_on_cpu() const { return record.config.StringOr("device", "") == "cpu"; }
  Stage stage() const;
  bool is_peer() const { return !record.variant.framework.empty(); }
  int64_t world_size() const { return record.world_size; }
  // Strategies take turns, and a turn is one or more consecutive steps of one strategy. Returns the number of
  // steps of a turn, including the untimed steps at the start of the turn.
  int64_t turn_steps() const { return record.facts.IntOr("turn_steps", record.facts.IntOr("period", 1)); }
};

// A Configuration identifies what was measured. A Configuration is a map with one text for each name: the
// variant, the model, the batch size and so on. Values that say how the measurement was made (number of
// steps, seed of the launch) are left out.
using Configuration = std::map<std::string, std::string>;
Configuration ConfigurationOf(const bench::Record& record);
// Returns those values of a record that all compared strategies share, such as model and batch size: the
// result of ConfigurationOf() without the variant and without the seed of a training in //bench:convergence.
Configuration SettingOf(const bench::Record& record);
std::string KeyOf(const Configuration& configuration);

// Combines `ranks`, the records of one launch about one configuration, into a measurement. `ranks` is not
// empty, is ordered by rank, and has at most one record of each rank.
Measurement CombineRanks(std::vector<bench::Record> ranks);

// Appends the steps of `more`, another launch of the same configuration, to `measurement`. Removes from
// `measurement` each series of times that `more` lacks, and adds none that only `more` has.
void AddLaunch(const Measurement& more, Measurement* measurement);

}  // namespace gradsync::tools
