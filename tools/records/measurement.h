#ifndef GRADSYNC_TOOLS_RECORDS_MEASUREMENT_H_
#define GRADSYNC_TOOLS_RECORDS_MEASUREMENT_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

namespace gradsync::tools {

// What was published of a series instead of its samples, in seconds; NaN where nothing was.
struct PublishedStatistics {
  double mean = 0;
  double std = 0;
  double median = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  size_t n = 0;  // steps behind them; 0: not said
};

// One kind of time, over the steps of a measurement, in seconds.
struct Series {
  // For each step the maximum over ranks: a step has taken place when the last rank is done. For phases too,
  // so the maxima of a step's phases may add up to more than the step: a rank that is late in one is early in
  // another.
  std::vector<double> max;
  // Of each rank's own steps.
  std::vector<double> rank_means;
  std::vector<double> rank_stds;  // population
  std::optional<PublishedStatistics> published;

  // Of `max`, or as published.
  double mean() const;
  double std() const;  // population
  // `p`: 0.5, 0.9, 0.95 or 0.99. NaN for another if the series is published.
  double percentile(double p) const;
  // Several, for the price of one.
  std::vector<double> percentiles(std::initializer_list<double> ps) const;
  size_t num_steps() const;
};

// Behind the name of a peer's strategy that ran its model compiled.
inline constexpr std::string_view kCompiled = "_compiled";
// The name without it.
inline std::string_view EagerName(std::string_view strategy) {
  if (strategy.ends_with(kCompiled)) strategy.remove_suffix(kCompiled.size());
  return strategy;
}

// Whether a strategy, gradsync's own or another framework's, does not synchronise.
inline bool IsFloor(std::string_view strategy) {
  strategy = EagerName(strategy);
  return strategy == "none" || strategy.ends_with("_none");
}

// The ranks' records of one configuration, put together.
struct Measurement {
  bench::Record record;  // the lowest rank's, without its samples: configuration, facts, provenance, buckets
  std::map<std::string, Series, std::less<>> series;  // by the samples' names
  size_t num_steps = 0;
  bool steps_differ = false;  // some rank has more steps; the ones that all have are used
  int64_t num_ranks = 0;      // whose records are there
  int64_t ranks_on_host = 0;  // the most on one host
  int64_t ranks_on_gpu = 0;   // the most on one GPU

  // Over ranks: the largest error (NaN if any is), whether all found gradients and parameters as the
  // reference's and replicas as each other, all wrong elements. Empty if no rank says.
  std::optional<double> grad_rel_error;
  std::optional<double> param_rel_error;
  std::optional<bool> grads_equal;
  std::optional<bool> params_equal;
  std::optional<bool> replicas_equal;
  std::optional<int64_t> wrong_elements;

  // Null if there are no such samples, and no such published figures.
  const Series* Find(std::string_view name) const;
  bool is_published() const { return !record.published.empty(); }
  // Of those three, the ones that are known. Empty if none is.
  std::optional<bool> equal() const;
  std::string strategy() const { return record.config.StringOr("strategy", ""); }
  // Whether it does not synchronise, the floor for time: replicas are meant to part.
  bool is_floor() const { return IsFloor(strategy()); }
  int64_t world_size() const { return record.world_size; }
};

// `ranks`: at least one record, of different ranks of one configuration. Takes from the first all but its
// samples, and gives it what was in `measurement`, whose memory is used again.
void CombineRanks(std::span<bench::Record> ranks, Measurement* measurement);
Measurement CombineRanks(std::vector<bench::Record> ranks);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_MEASUREMENT_H_
