#ifndef GRADSYNC_BENCH_TRAINING_MOMENTS_H_
#define GRADSYNC_BENCH_TRAINING_MOMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "comm/queue/recording_process_group.h"
#include "ddp/bucket.h"

namespace gradsync::bench {

// When a gradient was complete, on comm::Now().
struct ReadyGradient {
  const model::Parameter* param = nullptr;
  int64_t at_ns = 0;
};

// What became of the buckets of a plan in a step: one entry for each. Each moment is given as its distance
// from the one before, in ns; all are -1 where they are not known.
struct BucketMoments {
  std::vector<int64_t> ready_ns;    // from the step's begin until the bucket's last gradient was complete
  std::vector<int64_t> issued_ns;   // until its collective was issued
  std::vector<int64_t> started_ns;  // until a communication thread took it up
  std::vector<int64_t> ended_ns;    // until it was done

  bool operator==(const BucketMoments&) const = default;
};

BucketMoments UnknownMoments(size_t num_buckets);

// `gradients`: all of the step. `entries`: its collectives, finished, in the order of their issue, of which
// each but broadcasts is a bucket's: the first of that kind in the plan that was complete by then and had not
// been sent. Unknown if they do not fit the plan.
BucketMoments MomentsOf(const ddp::BucketPlan& plan, int64_t begin_ns,
                        std::span<const ReadyGradient> gradients,
                        std::span<const comm::RecordingProcessGroup::Entry> entries);

// From the step's begin until each of these was complete; -1: it was not.
std::vector<int64_t> ReadyTimes(std::span<model::Parameter* const> params, int64_t begin_ns,
                                std::span<const ReadyGradient> gradients);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_MOMENTS_H_
