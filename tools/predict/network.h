#ifndef GRADSYNC_TOOLS_PREDICT_NETWORK_H_
#define GRADSYNC_TOOLS_PREDICT_NETWORK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tools/predict/link_costs.h"

// What collectives take over links that nobody has measured, by the algorithms' plain formulas.
namespace gradsync::tools {

struct Wire {
  double bytes_per_second = 0;  // in each direction
  double latency_s = 0;
};
// "100Gbit,5us"; without a latency 5 us. Nothing for another text.
std::optional<Wire> ParseWire(const std::string& text);

enum class Algorithm { kBest, kRing, kTree, kHierarchical };

struct Network {
  int64_t world_size = 2, ranks_per_host = 1;
  Wire between;  // each host's, which its ranks share
  Wire within;   // each rank's to another of its host
  Algorithm algorithm = Algorithm::kBest;
};

// Seconds of a collective on so many bytes of the whole vector. A ring passes all ranks, n - 1 times to
// reduce and to gather each. A tree (of an all-reduce) goes up and down once. Hierarchical: a ring within
// each host, then one ring of hosts for each of its ranks, all over the host's wire. The best of them, unless
// one is asked for.
double CollectiveSeconds(const Network& network, CollectiveKind kind, double bytes);

// Collectives that were measured, between so many ranks.
struct MeasuredLink {
  LinkCosts costs;
  int64_t world_size = 2;
  bool has_processor = true;  // whether it is known what they use of processors
};

// Their costs. `recorded`: a byte that a rank sends takes as much of its processors as there; without it
// hosts do not move data.
LinkCosts CostsOver(const Network& network, const std::optional<MeasuredLink>& recorded = {});

// How far a link is from its data sheet, which nobody has measured: a standard deviation of the logarithm.
inline constexpr double kAssumedLinkError = 0.1;

// Where an answer is to hold, if not where its steps were recorded.
struct Place {
  int64_t world_size = 0, ranks_per_host = 1;  // 0: as recorded
  std::optional<Wire> wire = {};               // between hosts
  Wire within{25e9, 3e-6};                     // between ranks of a host, beside `wire`
  Algorithm algorithm = Algorithm::kBest;      // over `wire`
  std::optional<MeasuredLink> link = {};       // without `wire`; without both as recorded
  std::optional<double> processor = {};        // what communication uses of a rank's processors
};

// " (8 on a host), 25 Gbit/s and 5 us between hosts", and the line that says what is assumed of them; empty
// without a wire.
std::string WireText(const Place& place);
std::string WireAssumption(const Place& place);

// What collectives take between the ranks of a place, which knows how many. `recorded`: where steps were
// recorded, if they communicated. Throws InvalidInput where nothing tells, or nobody communicates.
LinkCosts CostsAt(const Place& place, const std::optional<MeasuredLink>& recorded);

// A measured link in another world, as if its collectives went around rings: from `measured` ranks to
// `wanted`.
LinkCosts InRingOf(const LinkCosts& costs, int64_t measured, int64_t wanted);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_NETWORK_H_
