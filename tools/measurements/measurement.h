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

// Names of times that CombineRanks computes from the measured times of each rank and training step.
inline constexpr auto kComputed = SampleName::Of("computed_ns");  // forward + backward
inline constexpr auto kWorked = SampleName::Of("worked_ns");      // computed_ns + the strategy's own work
inline constexpr auto kAveraged = SampleName::Of("averaged_ns");  // worked_ns + all waits for communication
// How long a rank waits for communication in a step, including the time in which other ranks still compute.
inline constexpr auto kWaits = SampleName::Of("sync_exposed_ns");
// For each step: computed_ns of the slowest rank, minus the mean computed_ns of the other ranks; 0 with one
// rank.
inline constexpr auto kSkew = SampleName::Of("skew_ns");

// Statistics of a time from a publication, in seconds. `mean`, `std` and elements of `percentiles` are NaN if
// the publication lacks them.
struct PublishedStatistics {
  double mean = 0;
  double std = 0;
  std::map<double, double> percentiles{};  // by p: 0.5, 0.9, 0.95 and 0.99
  size_t n = 0;                            // number of steps; 0 if unknown
};

// One time, such as "forward_ns" (the time of forward), or one loss, in all steps of a measurement. Times are
// in seconds, and losses in nats per byte; a held-out loss below 0 was not measured.
struct Series {
  // max[i] is the largest of all ranks' values in step i. `max` is empty for a series from a publication. In
  // the series skew_ns, max[i] is the skew between ranks in step i (kSkew).
  std::vector<double> max;
  // by_rank[r][i] is the time in step i of the rank with index r (from 0) among the ranks with records. Only
  // a strategy without communication has by_rank, and only in the series step_ns and computed_ns.
  std::vector<std::vector<double>> by_rank;
  // rank_means[r] and rank_stds[r] are the mean and the standard deviation, in seconds, of one rank's times.
  // r is the rank's index among the ranks with records. In the series skew_ns, and in series from a
  // publication, `rank_means` and `rank_stds` have one element for all ranks together.
  std::vector<double> rank_means;
  std::vector<double> rank_stds;  // population; with several launches, a weighted mean over launches
  std::optional<PublishedStatistics> published;

  // mean(), std(), percentile() and num_steps() return statistics of the times in `max`. For a series from a
  // publication, these functions return the published statistics.
  double mean() const;
  double std() const;  // population
  // Returns the p-quantile of the steps' times (p = 0.5: the median). Returns NaN if there are no steps, or
  // if a publication lacks this quantile.
  double percentile(double p) const;
  size_t num_steps() const;
};

// One start of all ranks as new processes; with --repeats, a benchmark makes several launches.
struct Launch {
  std::string run_id;
  size_t num_steps = 0;

  bool operator==(const Launch&) const = default;
};

// The stage of a launch with the flag --choose; kNone without this flag. The first launch (kChoosing)
// measures all strategies. Later launches (kDeciding) may leave out strategies that were slow in the first
// launch.
enum class Stage { kNone, kChoosing, kDeciding };

// The records of all ranks about one configuration (strategy, model, batch size, ...), combined.
struct Measurement {
  // The record of the lowest rank that has one, in the launch that was read first; without its samples.
  bench::Record record;
  std::map<std::string, Series, std::less<>> series;  // series by names of samples
  size_t num_steps = 0;
  std::vector<Launch> launches;  // at least one; their steps follow each other in `series`
  bool steps_differ = false;     // true if some ranks have more steps; these steps are left out
  int64_t num_ranks = 0;         // number of ranks with records
  int64_t ranks_on_host = 0;     // largest number of ranks on one machine
  int64_t ranks_on_gpu = 0;      // largest number of ranks on one GPU
  std::string numa_nodes;        // of each rank, such as "0,1"; empty if all are equal
  // The number of periods of the container's CPU quota during the run, and the number of periods in which the
  // quota was used up. Both numbers are maxima over ranks, summed over launches; both are 0 without a quota.
  int64_t cpu_periods = 0, throttled_periods = 0;

  // Results of the benchmark's checks on all ranks together. A result is empty if no rank made the check.
  std::optional<double> grad_rel_error;   // largest of all ranks; NaN if it is NaN on any rank
  std::optional<double> param_rel_error;  // largest of all ranks; NaN if it is NaN on any rank
  std::optional<bool> grads_equal;        // true if all gradients are within the tolerance
  std::optional<bool> params_equal;       // true if all parameters are within the tolerance
  std::optional<bool> replicas_equal;     // true if all ranks have equal gradients and parameters
  std::optional<int64_t> wrong_elements;  // of collectives' results, summed over ranks

  // Returns the element of `series` with the key `name`, such as "forward_ns"; null if there is none.
  const Series* Find(SampleName name) const;
  bool is_published() const { return !record.published.empty(); }
  // Returns whether none of grads_equal, params_equal and replicas_equal is false; empty if all three are
  // empty.
  std::optional<bool> equal() const;
  std::string strategy() const { return record.variant.qualified_strategy(); }
  // Returns the strategy with its options and, unless the backend is "none", with the backend: "core@gloo".
  // If the record measures collectives without a strategy, returns the backend with its options.
  std::string variant() const { return record.variant.name(); }
  // Returns the strategy without communication, such as "none", with which this strategy is compared; empty
  // if unknown.
  std::string floor() const { return record.facts.StringOr("floor", ""); }
  bool is_floor() const { return !strategy().empty() && strategy() == floor(); }
  // Returns whether the strategy's gradients should equal, except for rounding, those of one process with the
  // batches of all ranks. Returns true if unknown.
  bool is_exact() const { return record.facts.StringOr("agreement", "exact") == "exact"; }
  // Returns whether the strategy, by design, lets the weights become different on different ranks.
  bool drifts() const { return is_floor() || record.facts.StringOr("agreement", "") == "drifts"; }
  bool is_on_cpu() const { return record.config.StringOr("device", "") == "cpu"; }
  Stage stage() const;
  bool is_peer() const { return !record.variant.framework.empty(); }
  int64_t world_size() const { return record.world_size; }
  // In each round of a benchmark, each strategy has one turn. Returns the number of consecutive steps in a
  // turn of this strategy, including untimed steps.
  int64_t turn_steps() const { return record.facts.IntOr("turn_steps", record.facts.IntOr("period", 1)); }
};

// What was measured, as one text for each name: the variant, the model, the batch size and so on. A
// Configuration leaves out how the measurement was made, such as the number of steps.
using Configuration = std::map<std::string, std::string>;
Configuration ConfigurationOf(const bench::Record& record);
// Returns the values of a record's configuration that all compared strategies share, such as model and batch
// size.
Configuration SettingOf(const bench::Record& record);
std::string KeyOf(const Configuration& configuration);

// Combines the records of all ranks about one configuration in one launch into a measurement. `ranks` must
// not be empty, and must be ordered by rank, with at most one record of each rank.
Measurement CombineRanks(std::vector<bench::Record> ranks);

// Appends the steps of `more`, which has other launches of the same configuration, to `measurement`. Removes
// from `measurement` each series that `more` lacks.
void AddLaunch(const Measurement& more, Measurement* measurement);

}  // namespace gradsync::tools
