#pragma once

#include <cstdint>

namespace gradsync::bench {

// In a round, each of `num_configs` configurations (such as strategies) takes one step. Returns after how
// many rounds each of them has had each position in the order of a round equally often (RoundOrder in
// bench/timing/schedule.h). Such rounds are called a block. A benchmark should measure whole blocks.
constexpr int64_t RoundsPerBlock(int64_t num_configs) {
  return num_configs == 1 || num_configs % 2 == 0 ? num_configs : 2 * num_configs;
}

}  // namespace gradsync::bench
