#include "tools/records/moments.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

// A collective on one rank, in seconds since the step's beginning.
struct Moments {
  double ready = 0;
  double issued = 0;
  double started = 0;
  double ended = 0;
};
using Step = std::vector<std::vector<Moments>>;  // by rank and bucket
using Intervals = std::vector<std::pair<double, double>>;

// The moments of a step; empty if they are not all there.
Step StepOf(const std::vector<bench::Record>& ranks, size_t step, size_t num_buckets) {
  constexpr std::array<const char*, 4> kNames = {"ready_ns", "issued_ns", "started_ns", "ended_ns"};
  Step moments;
  for (const bench::Record& rank : ranks) {
    std::vector<Moments>& own = moments.emplace_back(num_buckets);
    for (size_t bucket = 0; bucket < num_buckets; ++bucket) {
      double time = 0;
      std::array<double, 4> times{};
      for (size_t i = 0; i < kNames.size(); ++i) {
        const auto found = rank.moments.find(kNames[i]);
        const size_t at = step * num_buckets + bucket;
        const bool is_known =
            found != rank.moments.end() && found->second.size() > at && found->second[at] >= 0;
        if (!is_known) return {};
        time += 1e-9 * static_cast<double>(found->second[at]);
        times[i] = time;
      }
      own[bucket] = {times[0], times[1], times[2], times[3]};
    }
  }
  return moments;
}

double LengthOfUnion(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  double length = 0;
  double end = 0;
  for (const auto& [from, to] : intervals) {
    length += std::max(0.0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return length;
}

double LastOf(const Step& step, size_t bucket, double Moments::*moment) {
  double last = 0;
  for (const std::vector<Moments>& rank : step) last = std::max(last, rank[bucket].*moment);
  return last;
}

// Of the rank on which collectives are in flight longest: all of that time, and how much of it comes after
// the last rank has issued the same collective.
std::pair<double, double> BusyAndMoving(const Step& step) {
  std::pair<double, double> longest{0, 0};
  for (const std::vector<Moments>& rank : step) {
    Intervals busy;
    Intervals moving;
    for (size_t bucket = 0; bucket < rank.size(); ++bucket) {
      const Moments& own = rank[bucket];
      busy.emplace_back(own.issued, own.ended);
      moving.emplace_back(std::min(LastOf(step, bucket, &Moments::issued), own.ended), own.ended);
    }
    longest = std::max(longest, std::pair(LengthOfUnion(std::move(busy)), LengthOfUnion(std::move(moving))));
  }
  return longest;
}

// `computed`: when the last rank had its gradients.
void AddBuckets(const Step& step, double computed, double weight, std::vector<BucketTimes>* buckets) {
  std::vector<size_t> order(buckets->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t bucket) { return LastOf(step, bucket, &Moments::ended); });
  double end = computed;
  for (const size_t bucket : order) {
    const double issued = LastOf(step, bucket, &Moments::issued);
    const double ended = LastOf(step, bucket, &Moments::ended);
    BucketTimes& mean = (*buckets)[bucket];
    mean.ready += weight * LastOf(step, bucket, &Moments::ready);
    for (const std::vector<Moments>& rank : step) {
      const double part = weight / static_cast<double>(step.size());
      mean.queued += part * (rank[bucket].issued - rank[bucket].ready);
      mean.waiting += part * (std::min(issued, rank[bucket].ended) - rank[bucket].issued);
    }
    mean.moving += weight * std::max(0.0, ended - issued);
    mean.ended += weight * ended;
    mean.exposed += weight * std::max(0.0, ended - end);
    end = std::max(end, ended);
  }
}

}  // namespace

void TakeMoments(const std::vector<bench::Record>& ranks, Measurement* measurement) {
  const Series* const computed = measurement->Find(kComputed);
  const size_t num_buckets = ranks.front().buckets.size();
  if (computed == nullptr || num_buckets == 0) return;
  std::vector<BucketTimes> buckets(num_buckets);
  std::vector<double> waiting;
  std::vector<double> moving;
  for (size_t i = 0; i < measurement->num_steps; ++i) {
    const Step step = StepOf(ranks, i, num_buckets);
    if (step.empty()) return;
    const auto [busy, moved] = BusyAndMoving(step);
    waiting.push_back(busy - moved);
    moving.push_back(moved);
    AddBuckets(step, computed->max[i], 1 / static_cast<double>(measurement->num_steps), &buckets);
  }
  measurement->buckets = std::move(buckets);
  for (auto& [name, values] : {std::pair(kCommWaiting, &waiting), std::pair(kCommMoving, &moving)}) {
    Series& series = measurement->series[name];
    series.rank_means = {Mean(*values)};
    series.rank_stds = {PopulationStd(*values)};
    series.max = std::move(*values);
  }
}

}  // namespace gradsync::tools
