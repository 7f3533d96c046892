#pragma once

#include <cstdint>

namespace gradsync::bench {

// Returns the number of rounds of a block (bench/timing/schedule.h) in which `num_configs` configurations
// take turns. A run should consist of whole blocks.
constexpr int64_t RoundsPerBlock(int64_t num_configs) {
  return num_configs == 1 || num_configs % 2 == 0 ? num_configs : 2 * num_configs;
}

}  // namespace gradsync::bench
