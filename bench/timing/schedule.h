#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/records/rounds.h"

namespace gradsync::bench {

// Returns the order in which `num_configs` configurations, for example strategies, take one step each in
// round `round`, counted from 0. Because configurations take turns, a machine that becomes slower slows all
// of them.
//
// A block has num_configs rounds, or 2 num_configs rounds if the number is odd. In a block, each
// configuration has each position equally often, and follows each other configuration equally often. So the
// effects of a step on the next step (caches, temperature) are equal for all configurations: E. J. Williams,
// "Experimental designs balanced for the estimation of residual effects of treatments", 1949. The assignment
// of configurations and the order of rounds are random in each block. Equal arguments give an equal order on
// every rank and machine.
std::vector<int> RoundOrder(int num_configs, int64_t round, uint64_t seed);

// Returns whether another block of rounds would exceed the budget, if its rounds take the mean time of
// earlier rounds.
bool IsTimeUp(double spent_s, double budget_s, int64_t rounds, int64_t rounds_per_block);

// Returns a seed that depends on `seed` and on the text, for example the name of an experiment and a run.
// Equal on all ranks.
uint64_t OrderSeed(int64_t seed, std::string_view text);

}  // namespace gradsync::bench
