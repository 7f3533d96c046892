#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/records/rounds.h"

namespace gradsync::bench {

// The order in which `num_configs` configurations, for example strategies, take a step each in round `round`,
// which counts from 0: a machine that becomes slower then does so for all of them.
//
// Rounds come in blocks of as many as there are configurations, or, of an odd number, of twice as many. In a
// block each one takes each place equally often, and follows each other one equally often, so that the
// effects of a step on the next (caches, temperature) are the same for all: E. J. Williams, "Experimental
// designs balanced for the estimation of residual effects of treatments", 1949. Which is which, and the order
// of a block's rounds, are drawn anew for each block. The same arguments give the same order on every rank
// and machine.
std::vector<int> RoundOrder(int num_configs, int64_t round, uint64_t seed);

// Whether another block of rounds would, by the mean of those so far, end later than the budget.
bool IsTimeUp(double spent_s, double budget_s, int64_t rounds, int64_t rounds_per_block);

// A seed of its own for each text, such as what is measured in which run; the same on every rank.
uint64_t OrderSeed(int64_t seed, std::string_view text);

}  // namespace gradsync::bench
