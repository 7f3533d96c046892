#pragma once

#include <cstdint>

namespace gradsync::bench {

// Returns how many successive rounds make up a block. In a round, each of `num_configs` configurations (such
// as strategies) takes one turn (such as a training step). The function RoundOrder (bench/timing/schedule.h)
// draws the order of the turns. In a whole block, each configuration is equally often first, second, and so
// on in a round. Within the rounds of the block, each configuration comes equally often directly after each
// of the others. A benchmark should measure only whole blocks, because part of a block does not treat all
// configurations equally.
constexpr int64_t RoundsPerBlock(int64_t num_configs) {
  return num_configs == 1 || num_configs % 2 == 0 ? num_configs : 2 * num_configs;
}

}  // namespace gradsync::bench
