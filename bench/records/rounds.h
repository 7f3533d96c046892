#pragma once

#include <cstdint>

namespace gradsync::bench {

// In a round, each of `num_configs` configurations (such as strategies) takes one turn (such as a training
// step), in the order that RoundOrder (bench/timing/schedule.h) draws for this round. Returns the number of
// rounds in a block. In a whole block, each configuration is equally often first, second, and so on in a
// round. Within rounds, it comes equally often directly after each of the others. A benchmark should measure
// whole blocks, so that the order favours no configuration.
constexpr int64_t RoundsPerBlock(int64_t num_configs) {
  return num_configs == 1 || num_configs % 2 == 0 ? num_configs : 2 * num_configs;
}

}  // namespace gradsync::bench
