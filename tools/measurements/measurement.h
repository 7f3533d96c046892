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

// Names of times that this package computes from the measured times of all ranks. The ranks of a host leave
// the barrier before a step at slightly different times; step_ns, computed_ns, worked_ns and averaged_ns are
// counted from when the last of these ranks leaves. bench/records/step_times.h defines the parts of a step.
inline constexpr auto kComputed = SampleName::Of("computed_ns");  // forward + backward
inline constexpr auto kWorked = SampleName::Of("worked_ns");      // computed_ns + the strategy's own work
inline constexpr auto kAveraged = SampleName::Of("averaged_ns");  // worked_ns + all waits for communication
// All times in which a rank waits for communication, also while other ranks still compute.
inline constexpr auto kWaits = SampleName::Of("sync_exposed_ns");
// How long ranks wait for the slowest rank: the time from the end of a rank's computation to the end of the
// last rank's, as a mean over all ranks but the last.
inline constexpr auto kSkew = SampleName::Of("skew_ns");

// Statistics of a time, in seconds, from a publication without samples; NaN for those that it lacks.
struct PublishedStatistics {
  double mean = 0;
  double std = 0;
  std::map<double, double> percentiles{};  // by 0.5, 0.9, 0.95 or 0.99
  size_t n = 0;                            // number of steps; 0 if unknown
};

// The times of a step, or of one of its parts, in all steps, in seconds.
struct Series {
  // For each step, the maximum over ranks, because a step ends when the last rank has finished. The maxima of
  // a step's parts may add up to more than the step, because different ranks may be the slowest in different
  // parts.
  std::vector<double> max;
  // by_rank[r][i] is the time of rank r in step i. It is filled only in the series step_ns and computed_ns of
  // a strategy without communication. It is empty if launches have different numbers of ranks.
  std::vector<std::vector<double>> by_rank;
  // The mean and the standard deviation of each rank's times over all its steps, in seconds, by rank. With
  // several launches, rank_stds has the mean of the launches' standard deviations, weighted by their steps.
  std::vector<double> rank_means;
  std::vector<double> rank_stds;  // population
  std::optional<PublishedStatistics> published;

  // The functions below return statistics of `max` (each step's time on its slowest rank), or the published
  // statistics if this is a publication's time.
  double mean() const;
  double std() const;  // population
  // Returns NaN for a percentile that was not published.
  double percentile(double p) const;
  size_t num_steps() const;
};

// A launch is one start of all ranks as new processes. A run has several with --repeats.
struct Launch {
  std::string run_id;
  size_t num_steps = 0;

  bool operator==(const Launch&) const = default;
};

// With --choose, the first launch (kChoosing) measures all strategies, and drops those that it shows to be
// slow. The later launches (kDeciding) measure the others. kNone: without --choose.
enum class Stage { kNone, kChoosing, kDeciding };

// The records of all ranks about one configuration (strategy, model, batch size, ...), combined.
struct Measurement {
  // The record of the lowest rank, without its lists of measured times.
  bench::Record record;
  std::map<std::string, Series, std::less<>> series;  // series by names of samples
  size_t num_steps = 0;
  std::vector<Launch> launches;  // at least one; their steps follow each other in `series`
  bool steps_differ = false;     // some ranks have more steps; only steps that all ranks have are used
  int64_t num_ranks = 0;         // number of ranks with records
  int64_t ranks_on_host = 0;     // largest number of ranks on one machine
  int64_t ranks_on_gpu = 0;      // largest number of ranks on one GPU
  std::string numa_nodes;        // of each rank, such as "0,1"; empty if all are equal
  // A container may have a quota of CPU time for each period of, say, 100 ms. These are the number of
  // periods, and the number of periods in which the quota was used up; each is the maximum over ranks, summed
  // over launches. Both are 0 without a quota.
  int64_t cpu_periods = 0, throttled_periods = 0;

  // Results of the checks: the largest errors of all ranks (NaN if one is NaN), whether gradients and
  // parameters are right on all ranks, whether they are equal on all ranks, and the sum of the ranks' wrong
  // elements. Each is empty if nothing was checked.
  std::optional<double> grad_rel_error;
  std::optional<double> param_rel_error;
  std::optional<bool> grads_equal;
  std::optional<bool> params_equal;
  std::optional<bool> replicas_equal;
  std::optional<int64_t> wrong_elements;

  // Returns the times with this name, such as "forward_ns"; null if there are none.
  const Series* Find(SampleName name) const;
  bool is_published() const { return !record.published.empty(); }
  // Returns whether the checks of gradients, of parameters, and of equality between ranks all passed; empty
  // if there was no such check.
  std::optional<bool> equal() const;
  std::string strategy() const { return record.variant.qualified_strategy(); }
  // Returns the strategy with its options and backend: "core@gloo"; only the backend in the benchmark of
  // collectives.
  std::string variant() const { return record.variant.name(); }
  // Returns the name of the strategy without communication, with whose steps others are compared to find what
  // communication costs; empty if unknown.
  std::string floor() const { return record.facts.StringOr("floor", ""); }
  // Returns whether this is a strategy without communication.
  bool is_floor() const { return !strategy().empty() && strategy() == floor(); }
  // Returns whether the strategy computes, by design, the gradients that one process computes on the batches
  // of all ranks; true if unknown.
  bool is_exact() const { return record.facts.StringOr("agreement", "exact") == "exact"; }
  // Returns whether the ranks' weights differ by design.
  bool drifts() const { return is_floor() || record.facts.StringOr("agreement", "") == "drifts"; }
  bool is_on_cpu() const { return record.config.StringOr("device", "") == "cpu"; }
  Stage stage() const;
  bool is_peer() const { return !record.variant.framework.empty(); }
  int64_t world_size() const { return record.world_size; }
  // Strategies take turns, and a turn has one or more steps of one strategy. Returns the number of steps of a
  // turn, with the untimed steps at its start.
  int64_t turn_steps() const { return record.facts.IntOr("turn_steps", record.facts.IntOr("period", 1)); }
};

// The values that identify what was measured, as texts by name: the variant, and the configuration (model,
// batch size, ...), without values that say how it was measured (steps, seed).
using Configuration = std::map<std::string, std::string>;
Configuration ConfigurationOf(const bench::Record& record);
// Returns the part of the configuration that all strategies of a run share.
Configuration SettingOf(const bench::Record& record);
std::string KeyOf(const Configuration& configuration);

// Combines the records of all ranks about one configuration; at least one record.
Measurement CombineRanks(std::vector<bench::Record> ranks);

// Appends the steps of `more`, another launch of the same configuration, to `measurement`. Drops each series
// of times that only one of the two has.
void AddLaunch(const Measurement& more, Measurement* measurement);

}  // namespace gradsync::tools
