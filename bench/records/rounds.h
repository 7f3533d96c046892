#pragma once

#include <cstdint>

namespace gradsync::bench {

// In a round, each of `num_configs` configurations (such as strategies) takes one step. RoundOrder
// (bench/timing/schedule.h) changes their order from round to round. Returns the number of rounds in a block:
// the rounds after which each configuration has been equally often first, second, and so on. A benchmark
// should measure whole blocks, so that the order favours no configuration.
constexpr int64_t RoundsPerBlock(int64_t num_configs) {
  return num_configs == 1 || num_configs % 2 == 0 ? num_configs : 2 * num_configs;
}

}  // namespace gradsync::bench
