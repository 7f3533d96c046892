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

// Samples that this package computes from the samples of all ranks. A step begins for all ranks of a host
// when the last of these ranks has left the barrier before the step. step_ns and the first three samples
// below are counted from this time. bench/records/step_times.h defines the parts of a step.
inline constexpr auto kComputed = SampleName::Of("computed_ns");  // forward + backward
inline constexpr auto kWorked =
    SampleName::Of("worked_ns");  // adds the strategy's own work: BeginStep and hooks
inline constexpr auto kAveraged = SampleName::Of("averaged_ns");  // adds all waits
// All waits of a rank. What a step exposes is the maximum of kAveraged over ranks minus the maximum of
// kWorked over ranks.
inline constexpr auto kWaits = SampleName::Of("sync_exposed_ns");
// The time from the end of a rank's computation to the end of the last rank's computation, as a mean over the
// other ranks. They wait during this time, but not for communication.
inline constexpr auto kSkew = SampleName::Of("skew_ns");

// Published statistics of a series without samples, in seconds; NaN for values that were not published.
struct PublishedStatistics {
  double mean = 0;
  double std = 0;
  std::map<double, double> percentiles{};  // percentiles by 0.5, 0.9, 0.95 and 0.99
  size_t n = 0;                            // number of steps; 0 if unknown
};

// The times of a step or of one of its phases, over the steps of a measurement, in seconds.
struct Series {
  // For each step the maximum over ranks, because a step ends when the last rank has finished. For phases it
  // is also the maximum over ranks, so the maxima of a step's phases may add up to more than the step:
  // different ranks may be the slowest in different phases.
  std::vector<double> max;
  // For step_ns and computed_ns of a floor, the steps of each rank; empty if the ranks of launches differ.
  std::vector<std::vector<double>> by_rank;
  // The mean and the standard deviation of the steps of each rank. With several launches, each is the mean
  // over launches.
  std::vector<double> rank_means;
  std::vector<double> rank_stds;  // population
  std::optional<PublishedStatistics> published;

  // The following functions return statistics of `max`, or the published statistics.
  double mean() const;
  double std() const;  // population
  // Returns a percentile. For a published series, p must be 0.5, 0.9, 0.95 or 0.99; other values give NaN.
  double percentile(double p) const;
  size_t num_steps() const;
};

// A launch is one start of all ranks.
struct Launch {
  std::string run_id;
  size_t num_steps = 0;

  bool operator==(const Launch&) const = default;
};

// The part of a launch in a run with --choose: the first launch chooses the rows of the others.
enum class Stage { kNone, kChoosing, kDeciding };

// The records of all ranks of one configuration, combined.
struct Measurement {
  // Record of the lowest rank without samples: configuration, facts, provenance, buckets.
  bench::Record record;
  std::map<std::string, Series, std::less<>> series;  // series by names of samples
  size_t num_steps = 0;
  std::vector<Launch> launches;  // launches in the order of their steps; at least one
  bool steps_differ = false;     // some rank has more steps; only steps that all ranks have are used
  int64_t num_ranks = 0;         // number of ranks with records
  int64_t ranks_on_host = 0;     // largest number of ranks on one machine
  int64_t ranks_on_gpu = 0;      // largest number of ranks on one GPU
  std::string numa_nodes;        // NUMA node of each rank, such as "0,1", if the nodes differ
  // The number of periods of a quota of CPU time, and the number of periods in which a host used up the
  // quota. Each is the maximum over ranks.
  int64_t cpu_periods = 0, throttled_periods = 0;

  // Checks, combined over ranks: the largest error (NaN if an error is NaN), whether all ranks found
  // gradients and parameters equal to the reference and replicas equal to each other, and the sum of wrong
  // elements. Empty if no rank has the value.
  std::optional<double> grad_rel_error;
  std::optional<double> param_rel_error;
  std::optional<bool> grads_equal;
  std::optional<bool> params_equal;
  std::optional<bool> replicas_equal;
  std::optional<int64_t> wrong_elements;

  // Returns null if there are neither samples nor published figures of this name.
  const Series* Find(SampleName name) const;
  bool is_published() const { return !record.published.empty(); }
  // Returns whether all known values of grads_equal, params_equal and replicas_equal are true. Empty if no
  // value is known.
  std::optional<bool> equal() const;
  std::string strategy() const { return record.variant.qualified_strategy(); }
  // Returns the text of the variant: "core@gloo"; for all_reduce the backend.
  std::string variant() const { return record.variant.name(); }
  // Returns the strategy relative to which the cost is measured; empty if unknown.
  std::string floor() const { return record.facts.StringOr("floor", ""); }
  // Returns whether the variant does not synchronise: it is the floor for times, and its replicas diverge by
  // design.
  bool is_floor() const { return !strategy().empty() && strategy() == floor(); }
  // Returns whether the gradients are those of a single process (ddp/interface/traits.h); true if unknown.
  bool is_exact() const { return record.facts.StringOr("agreement", "exact") == "exact"; }
  // Returns whether replicas diverge by design.
  bool drifts() const { return is_floor() || record.facts.StringOr("agreement", "") == "drifts"; }
  bool is_on_cpu() const { return record.config.StringOr("device", "") == "cpu"; }
  Stage stage() const;
  // Returns whether another framework took the steps.
  bool is_peer() const { return !record.variant.framework.empty(); }
  int64_t world_size() const { return record.world_size; }
  // Returns the number of steps of a turn, including untimed steps.
  int64_t turn_steps() const { return record.facts.IntOr("turn_steps", record.facts.IntOr("period", 1)); }
};

// What identifies a row, as text: the variant, and the configuration by name, except names with the scope
// kRun.
using Configuration = std::map<std::string, std::string>;
Configuration ConfigurationOf(const bench::Record& record);
// Returns the part of the configuration that is equal for all variants of a run.
Configuration SettingOf(const bench::Record& record);
// Returns the configuration as one text.
std::string KeyOf(const Configuration& configuration);

// Combines records of different ranks of one configuration. `ranks` has at least one record.
Measurement CombineRanks(std::vector<bench::Record> ranks);

// Appends another launch of the configuration. Drops series of samples that one of the two launches lacks.
void AddLaunch(const Measurement& more, Measurement* measurement);

}  // namespace gradsync::tools
