#include "bench/timing/schedule.h"

#include <numeric>
#include <utility>

#include "model/random.h"

namespace gradsync::bench {

std::vector<ScheduledStep> InterleavedSchedule(int num_configs, int64_t warmup_rounds, int64_t rounds,
                                               uint64_t seed) {
  std::vector<ScheduledStep> steps;
  std::vector<int> order(static_cast<size_t>(num_configs));
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int64_t round = 0; round < warmup_rounds + rounds; ++round) {
    std::iota(order.begin(), order.end(), 0);
    // Fisher and Yates. A word is far larger than the number of configurations, so its remainder is fair.
    for (uint32_t left = static_cast<uint32_t>(num_configs); left > 1; --left) {
      const uint32_t word = model::Philox4x32(key, {static_cast<uint32_t>(round), left, 0, 0})[0];
      std::swap(order[left - 1], order[word % left]);
    }
    for (const int config : order) steps.push_back({config, round, round < warmup_rounds});
  }
  return steps;
}

}  // namespace gradsync::bench
