#ifndef GRADSYNC_BENCH_TRAINING_STOP_RULE_H_
#define GRADSYNC_BENCH_TRAINING_STOP_RULE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/process_group.h"
#include "model/device.h"

namespace gradsync::bench {

// Steps by variant and round.
using StepTimes = std::vector<std::vector<int64_t>>;

// Whether each variant's mean difference to the first, in the same rounds, is known to within `precision`,
// as a part of the first one's mean step: half the width of the paired 95 % interval (Student's) is no more.
// The interval takes rounds for independent of each other, which they are not on a machine that drifts, and
// looking again and again makes it narrower still by chance: it says when to stop, and judges nothing.
bool IsPreciseEnough(const StepTimes& steps_ns, double precision);

// What each variant's steps took on the slowest rank: the maximum over ranks, on all of them. All ranks call,
// with as many of each.
StepTimes MaxOverRanks(const StepTimes& steps_ns, comm::ProcessGroup& group, const model::DevicePtr& device);

// How many timed rounds a run takes.
class StopRule {
 public:
  // `least` rounds; with a precision more, until it is reached, but at most `most`.
  StopRule(int64_t least, int64_t most, std::optional<double> precision)
      : least_(least), most_(precision ? most : least), precision_(precision) {}

  // After a timed round: takes this rank's steps, by variant, and says whether that was the last one. All
  // ranks call, and get rank 0's answer.
  bool IsLast(const std::vector<int64_t>& steps_ns, comm::ProcessGroup& group,
              const model::DevicePtr& device);

 private:
  const int64_t least_, most_;
  const std::optional<double> precision_;
  int64_t rounds_ = 0;
  StepTimes known_ns_;   // on the slowest rank
  StepTimes recent_ns_;  // on this one, since
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_STOP_RULE_H_
