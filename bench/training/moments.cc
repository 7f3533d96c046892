#include "bench/training/moments.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace gradsync::bench {

using Entry = comm::RecordingProcessGroup::Entry;

BucketMoments UnknownMoments(size_t num_buckets) {
  const std::vector<int64_t> unknown(num_buckets, -1);
  return {unknown, unknown, unknown, unknown};
}

BucketMoments MomentsOf(const ddp::BucketPlan& plan, int64_t begin_ns,
                        std::span<const ReadyGradient> gradients, std::span<const Entry> entries) {
  const size_t num_buckets = plan.buckets.size();
  BucketMoments moments = UnknownMoments(num_buckets);
  std::unordered_map<const model::Parameter*, int64_t> ready_at_ns;
  for (const auto& [param, at_ns] : gradients) ready_at_ns[param] = at_ns;
  std::vector<int64_t> bucket_ready_ns;
  for (const ddp::Bucket& bucket : plan.buckets) {
    int64_t& last_ns = bucket_ready_ns.emplace_back(begin_ns);
    for (const model::Parameter* const param : bucket.params) {
      const auto found = ready_at_ns.find(param);
      if (found == ready_at_ns.end()) return moments;
      last_ns = std::max(last_ns, found->second);
    }
  }
  constexpr int64_t kSent = std::numeric_limits<int64_t>::max();
  size_t num_sent = 0;
  for (const Entry& entry : entries) {
    using enum comm::Collective;
    if (entry.collective == kBroadcast || entry.collective == kBarrier) continue;
    size_t i = 0;
    while (i < num_buckets &&
           (plan.buckets[i].collective != entry.collective || bucket_ready_ns[i] > entry.issue_ns))
      ++i;
    const bool fits = i < num_buckets && entry.bytes == static_cast<int64_t>(plan.buckets[i].sent_bytes()) &&
                      entry.interval.start_ns >= entry.issue_ns;
    if (!fits) return UnknownMoments(num_buckets);
    moments.ready_ns[i] = bucket_ready_ns[i] - begin_ns;
    moments.issued_ns[i] = entry.issue_ns - bucket_ready_ns[i];
    moments.started_ns[i] = entry.interval.start_ns - entry.issue_ns;
    moments.ended_ns[i] = entry.interval.end_ns - entry.interval.start_ns;
    bucket_ready_ns[i] = kSent;
    ++num_sent;
  }
  return num_sent == num_buckets ? moments : UnknownMoments(num_buckets);
}

std::vector<int64_t> ReadyTimes(std::span<model::Parameter* const> params, int64_t begin_ns,
                                std::span<const ReadyGradient> gradients) {
  std::unordered_map<const model::Parameter*, int64_t> ready_ns;
  for (const auto& [param, at_ns] : gradients) ready_ns[param] = at_ns - begin_ns;
  std::vector<int64_t> times_ns;
  for (const model::Parameter* const param : params) {
    const auto found = ready_ns.find(param);
    times_ns.push_back(found == ready_ns.end() ? -1 : found->second);
  }
  return times_ns;
}

}  // namespace gradsync::bench
