#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/records/rounds.h"

namespace gradsync::bench {

// Returns the order in which the configurations 0 to num_configs - 1 (such as strategies) take turns in the
// round with the index `round`. A turn is, for example, a training step. In each round each configuration
// takes one turn, so that a machine that becomes slower slows all of them.
//
// RoundsPerBlock(num_configs) successive rounds are a block. In a block, each configuration has each position
// in a round equally often. Within the rounds of the block, each configuration comes equally often directly
// after each of the others. So, within rounds, the effects of a turn on the next one (by caches, temperature)
// meet all configurations equally. The orders of configurations in the rounds of a block follow the design of
// E. J. Williams, "Experimental designs balanced for the estimation of residual effects of treatments", 1949.
// For each block, the numbering of the configurations and the order of the rounds are drawn at random, with
// the seed `seed`. Equal arguments give an equal order on every rank and machine.
std::vector<int> RoundOrder(int num_configs, int64_t round, uint64_t seed);

// A measurement has taken `spent_s` seconds for its first `rounds` rounds (one turn of each configuration).
// Returns whether it would take more than `budget_s` seconds with `rounds_per_block` more rounds. IsTimeUp
// expects that each further round takes the mean time of the first `rounds` rounds.
bool IsTimeUp(double spent_s, double budget_s, int64_t rounds, int64_t rounds_per_block);

// Returns a seed for RoundOrder: a hash of `seed` and `text`. Callers put the name of the launch (a start of
// all ranks) into `text`, so that each launch draws another order.
uint64_t OrderSeed(int64_t seed, std::string_view text);

}  // namespace gradsync::bench
