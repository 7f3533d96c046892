#include "bench/timing/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/tensor/random.h"

namespace gradsync::bench {
namespace {

enum class Drawn : uint64_t { kConfigs, kRounds };

// Returns 0, 1, ... n - 1 in random order.
std::vector<int> Shuffled(int n, Drawn what, int64_t block, uint64_t seed) {
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const uint64_t stream = model::StreamOf(model::Purpose::kOrder, static_cast<uint64_t>(what));
  // The algorithm of Fisher and Yates. A word is much larger than the number of configurations, so its
  // remainder is nearly uniform.
  for (uint32_t left = static_cast<uint32_t>(n); left > 1; --left) {
    const uint32_t word = model::RandomWords(seed, stream, static_cast<uint64_t>(block) << 32 | left)[0];
    std::swap(order[left - 1], order[word % left]);
  }
  return order;
}

}  // namespace

bool IsTimeUp(double spent_s, double budget_s, int64_t rounds, int64_t rounds_per_block) {
  return spent_s * (1 + static_cast<double>(rounds_per_block) / static_cast<double>(rounds)) > budget_s;
}

uint64_t OrderSeed(int64_t seed, std::string_view text) {
  uint64_t hash = static_cast<uint64_t>(seed) ^ 0xcbf29ce484222325;  // FNV-1a hash
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::vector<int> RoundOrder(int num_configs, int64_t round, uint64_t seed) {
  const int n = num_configs;
  const int rounds_per_block = static_cast<int>(RoundsPerBlock(n));
  const int64_t block = round / rounds_per_block;
  const std::vector<int> configs = Shuffled(n, Drawn::kConfigs, block, seed);
  const std::vector<int> rounds = Shuffled(rounds_per_block, Drawn::kRounds, block, seed);
  const int row = rounds[static_cast<size_t>(round % rounds_per_block)];
  std::vector<int> order;
  for (int place = 0; place < n; ++place) {
    // 0, 1, -1, 2, -2, ... : adjacent numbers differ by 1, -2, 3, ..., each difference once. The rows are
    // shifts of this sequence, and, after the first n rows, of the reversed sequence.
    const int step = place % 2 == 1 ? (place + 1) / 2 : n - place / 2;
    order.push_back(configs[static_cast<size_t>((step + row) % n)]);
  }
  if (row >= n) std::ranges::reverse(order);
  return order;
}

}  // namespace gradsync::bench
