#ifndef GRADSYNC_BENCH_LEARNING_SCHEDULE_H_
#define GRADSYNC_BENCH_LEARNING_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "bench/launch/flags.h"

namespace gradsync::bench {

// How the learning rate changes over a trial, as a share of the largest one. In the first w of n steps it
// grows, as (i + 1) / (w + 1) in step i = 0, 1, ... Then it stays at 1; or it falls, as half a cosine:
//
//   min + (1 - min) * (1 + cos(pi * (i - w) / (n - w))) / 2
struct LearningRateSchedule {
  bool is_cosine = false;
  int64_t warmup_steps = 0;
  double min = 0;

  double ShareIn(int64_t step, int64_t num_steps) const;
  // "cosine,warmup=100,min=0.1", without what is by default.
  std::string ToString() const;
};

// What ToString gives.
Kind<LearningRateSchedule> LearningRateSchedules();

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_SCHEDULE_H_
