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

// Samples that are computed here from those of all ranks. A step of all ranks on a host begins when the last
// of them has left the barrier before it: step_ns and the first three here count from there. See
// bench/records/step_times.h.
inline constexpr auto kComputed = SampleName::Of("computed_ns");  // forward + backward
inline constexpr auto kWorked =
    SampleName::Of("worked_ns");  // and the strategy's own work: BeginStep and hooks
inline constexpr auto kAveraged = SampleName::Of("averaged_ns");     // and exposed synchronisation
inline constexpr auto kExposed = SampleName::Of("sync_exposed_ns");  // all waits
// How much earlier than the last rank the others had computed, on average: no communication, though they
// wait.
inline constexpr auto kSkew = SampleName::Of("skew_ns");

// What was published of a series instead of its samples, in seconds; NaN where nothing was.
struct PublishedStatistics {
  double mean = 0;
  double std = 0;
  std::map<double, double> percentiles{};  // by 0.5, 0.9, 0.95 and 0.99
  size_t n = 0;                            // steps behind them; 0: not said
};

// One kind of time, over the steps of a measurement, in seconds.
struct Series {
  // For each step the maximum over ranks: a step has taken place when the last rank is done. For phases too,
  // so the maxima of a step's phases may add up to more than the step: a rank that is late in one is early in
  // another.
  std::vector<double> max;
  // Each rank's own steps, of a floor's step_ns and computed_ns; empty where ranks differ between launches.
  std::vector<std::vector<double>> by_rank;
  // The mean and deviation of each rank's own steps; with several launches, the mean of theirs.
  std::vector<double> rank_means;
  std::vector<double> rank_stds;  // population
  std::optional<PublishedStatistics> published;

  // These are statistics of `max`, or the published ones.
  double mean() const;
  double std() const;  // population
  // `p`: 0.5, 0.9, 0.95 or 0.99. NaN for another if the series is published.
  double percentile(double p) const;
  size_t num_steps() const;
};

// One start of all ranks.
struct Launch {
  std::string run_id;
  size_t num_steps = 0;

  bool operator==(const Launch&) const = default;
};

// The ranks' records of one configuration, put together.
struct Measurement {
  bench::Record record;  // the lowest rank's, without its samples: configuration, facts, provenance, buckets
  std::map<std::string, Series, std::less<>> series;  // by the samples' names
  size_t num_steps = 0;
  std::vector<Launch> launches;  // whose steps these are, one after the other; at least one
  bool steps_differ = false;     // some rank has more steps; the ones that all have are used
  int64_t num_ranks = 0;         // whose records are there
  int64_t ranks_on_host = 0;     // the most on one machine
  int64_t ranks_on_gpu = 0;      // the most on one GPU
  std::string numa_nodes;        // "0,1": of each rank, if they differ
  // Of a quota of CPU time: all, and those in which a host used it up; the most of any rank.
  int64_t cpu_periods = 0, throttled_periods = 0;

  // Over ranks: the largest error (NaN if any is), whether all found gradients and parameters as the
  // reference's and replicas as each other, all wrong elements. Empty if no rank says.
  std::optional<double> grad_rel_error;
  std::optional<double> param_rel_error;
  std::optional<bool> grads_equal;
  std::optional<bool> params_equal;
  std::optional<bool> replicas_equal;
  std::optional<int64_t> wrong_elements;

  // Null if there are no such samples, and no such published figures.
  const Series* Find(SampleName name) const;
  bool is_published() const { return !record.published.empty(); }
  // Whether those of grads_equal, params_equal and replicas_equal that are known are all true. Empty if none
  // is known.
  std::optional<bool> equal() const;
  std::string strategy() const { return record.variant.qualified_strategy(); }
  // What takes turns with others: "core@gloo"; of all_reduce the backend.
  std::string variant() const { return record.variant.name(); }
  // The strategy that its cost is measured from; empty: unknown.
  std::string floor() const { return record.facts.StringOr("floor", ""); }
  // Whether it does not synchronise: a floor for time, whose replicas are meant to part.
  bool is_floor() const { return !strategy().empty() && strategy() == floor(); }
  // Whether another framework took its steps.
  bool is_peer() const { return !record.variant.framework.empty(); }
  int64_t world_size() const { return record.world_size; }
  // How many steps in a row its turn has, with those that are not timed.
  int64_t turn_steps() const { return record.facts.IntOr("turn_steps", record.facts.IntOr("period", 1)); }
};

// What tells a row from others, as text: the variant, and the configuration by name, but for what the run
// alone decided.
using Configuration = std::map<std::string, std::string>;
Configuration ConfigurationOf(const bench::Record& record);
// The part of it that all variants of a run share.
Configuration CellOf(const bench::Record& record);
// All of it as one text.
std::string KeyOf(const Configuration& configuration);

// `ranks`: at least one record, of different ranks of one configuration.
Measurement CombineRanks(std::vector<bench::Record> ranks);

// Appends another launch of the same configuration. Samples that one of the two lacks are dropped.
void AddLaunch(const Measurement& more, Measurement* measurement);

}  // namespace gradsync::tools
