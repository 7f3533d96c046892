#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/records/rounds.h"

namespace gradsync::bench {

// Returns the order in which `num_configs` configurations, such as strategies, take one step each in round
// `round` = 0, 1, ... They take turns, so that a machine that becomes slower slows all of them.
//
// RoundsPerBlock(num_configs) rounds make a block. In a block, each configuration has each position in a
// round equally often, and follows each other configuration equally often. So the effects of a step on the
// next step (caches, temperature) are equal for all configurations: E. J. Williams, "Experimental designs
// balanced for the estimation of residual effects of treatments", 1949. Within these rules the order is drawn
// at random from `seed`. Equal arguments give an equal order on every rank and machine.
std::vector<int> RoundOrder(int num_configs, int64_t round, uint64_t seed);

// Returns whether `rounds_per_block` more rounds would exceed the budget, if each takes the mean time of the
// rounds so far. The first `rounds` rounds took `spent_s`.
bool IsTimeUp(double spent_s, double budget_s, int64_t rounds, int64_t rounds_per_block);

// Returns a seed for RoundOrder that is made from `seed` and a text, such as the name of a run, so that
// different runs have different orders.
uint64_t OrderSeed(int64_t seed, std::string_view text);

}  // namespace gradsync::bench
