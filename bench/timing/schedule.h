#ifndef GRADSYNC_BENCH_TIMING_SCHEDULE_H_
#define GRADSYNC_BENCH_TIMING_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace gradsync::bench {

// One step of a run over several configurations, for example strategies.
struct ScheduledStep {
  int config = 0;     // index of the configuration
  int64_t round = 0;  // counts from 0, warm-up included; every configuration has one step in each round
  bool warmup = false;

  bool operator==(const ScheduledStep&) const = default;
};

// The steps of `num_configs` configurations, `warmup_rounds` and then `rounds` of each. In every round each
// configuration runs once, in an order drawn anew, so that a machine that drifts drifts for all alike. The
// same arguments give the same steps on every rank and machine.
std::vector<ScheduledStep> InterleavedSchedule(int num_configs, int64_t warmup_rounds, int64_t rounds,
                                               uint64_t seed);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_SCHEDULE_H_
