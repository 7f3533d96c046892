#include "tools/predict/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "model/error.h"

namespace gradsync::tools {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                     CollectiveKind::kAllGather};

std::optional<double> Quantity(const std::string& text,
                               std::initializer_list<std::pair<std::string, double>> units) {
  for (const auto& [unit, factor] : units) {
    double number = 0;
    const bool has_unit = text.ends_with(unit);
    if (has_unit && absl::SimpleAtod(text.substr(0, text.size() - unit.size()), &number) && number > 0)
      return number * factor;
  }
  return std::nullopt;
}

// How many bytes a rank sends for each byte of the vector.
double SentPart(CollectiveKind kind, int64_t world_size) {
  return (kind == CollectiveKind::kAllReduce ? 2 : 1) * (1 - 1 / static_cast<double>(world_size));
}

// CPU-seconds of a rank for each byte that it sends.
double ProcessorSeconds(const MeasuredLink& link, CollectiveKind kind) {
  constexpr double kBytes = 64 << 20;
  return link.costs.Seconds(kind, kBytes) * link.costs.Processor(kind, kBytes, 1) /
         (kBytes * SentPart(kind, link.world_size));
}

// To reduce to parts, or to gather from them, around a ring.
double HalfRing(double ranks, double bytes, const Wire& wire) {
  return (ranks - 1) * (wire.latency_s + bytes / ranks / wire.bytes_per_second);
}

}  // namespace

std::optional<Wire> ParseWire(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const std::optional<double> rate = Quantity(parts[0], {{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}});
  const std::optional<double> latency =
      parts.size() < 2 ? 5e-6 : Quantity(parts[1], {{"us", 1e-6}, {"ms", 1e-3}});
  if (!rate || !latency || parts.size() > 2) return std::nullopt;
  return Wire{*rate, *latency};
}

double CollectiveSeconds(const Network& network, CollectiveKind kind, double bytes) {
  const double ranks = static_cast<double>(network.world_size);
  const double on_host = std::min(static_cast<double>(network.ranks_per_host), ranks),
               hosts = std::ceil(ranks / on_host);
  const double halves = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const Wire& slowest = hosts > 1 ? network.between : network.within;
  const double ring = halves * HalfRing(ranks, bytes, slowest);
  double tree = std::numeric_limits<double>::infinity();
  if (kind == CollectiveKind::kAllReduce) {
    tree = 2 * (std::log2(hosts) * network.between.latency_s + std::log2(on_host) * network.within.latency_s +
                bytes / slowest.bytes_per_second);
  }
  const double hierarchical =
      halves * (HalfRing(on_host, bytes, network.within) + HalfRing(hosts, bytes, network.between));
  switch (network.algorithm) {
    case Algorithm::kRing:
      return ring;
    case Algorithm::kTree:
      return kind == CollectiveKind::kAllReduce ? tree : ring;
    case Algorithm::kHierarchical:
      return hierarchical;
    case Algorithm::kBest:
      break;
  }
  return std::min({ring, tree, hierarchical});
}

LinkCosts CostsOver(const Network& network, const std::optional<MeasuredLink>& recorded) {
  std::vector<CollectiveCost> costs;
  for (const CollectiveKind kind : kKinds) {
    const double processor_s = recorded ? ProcessorSeconds(*recorded, kind) : 0;
    Network slowed = network;
    if (processor_s > 0) {
      // Hosts' processors move the data, so it is TCP, which has so many of an Ethernet frame's bytes; and a
      // rank that sums or copies a part does not send it meanwhile.
      constexpr double kPayload = 1448.0 / 1514;
      double& rate = slowed.between.bytes_per_second;
      rate = 1 / (1 / (kPayload * rate) + processor_s);
    }
    for (double bytes = 256; bytes < 1e11; bytes *= 2) {
      const double seconds = CollectiveSeconds(slowed, kind, bytes),
                   used_s = processor_s * SentPart(kind, network.world_size) * bytes;
      costs.push_back({.kind = kind,
                       .bytes = bytes,
                       .seconds = seconds,
                       .processor = seconds > 0 ? std::min(1.0, used_s / seconds) : 0});
    }
  }
  return LinkCosts(costs);
}

std::string WireText(const Place& place) {
  if (!place.wire) return "";
  return absl::StrFormat(" (%d on a host), %.4g Gbit/s and %.4g us between hosts", place.ranks_per_host,
                         8e-9 * place.wire->bytes_per_second, 1e6 * place.wire->latency_s);
}

std::string WireAssumption(const Place& place) {
  if (!place.wire) return "";
  const std::string within = absl::StrFormat("; ranks of a host exchange %.4g Gbit/s (--within)",
                                             8e-9 * place.within.bytes_per_second);
  return absl::StrFormat("Assumed: the link is within %g %% of its data sheet%s.\n", 100 * kAssumedLinkError,
                         place.ranks_per_host > 1 ? within : "");
}

LinkCosts CostsAt(const Place& place, const std::optional<MeasuredLink>& recorded) {
  const std::optional<MeasuredLink>& measured = place.link ? place.link : recorded;
  Require(place.wire || measured, "nothing was communicated: name a link, such as --link=25Gbit,5us");
  Require(place.world_size > 1, "one rank communicates with nobody: --world_size takes 2 or more");
  const LinkCosts costs =
      place.wire
          ? CostsOver({place.world_size, place.ranks_per_host, *place.wire, place.within, place.algorithm},
                      recorded)
      : measured->world_size == place.world_size
          ? measured->costs
          : InRingOf(measured->costs, measured->world_size, place.world_size);
  return place.processor ? costs.WithProcessor(*place.processor) : costs;
}

LinkCosts InRingOf(const LinkCosts& costs, int64_t measured, int64_t wanted) {
  const double from = static_cast<double>(measured), to = static_cast<double>(wanted);
  std::vector<CollectiveCost> all;
  for (const CollectiveKind kind : kKinds) {
    // A hop carries bytes / ranks, and there are as many of them as ranks less one.
    for (double bytes = 256; bytes < 1e11; bytes *= 2) {
      all.push_back({.kind = kind,
                     .bytes = bytes * to / from,
                     .seconds = costs.Seconds(kind, bytes) * (to - 1) / (from - 1),
                     .processor = costs.Processor(kind, bytes, 1)});
    }
  }
  return LinkCosts(all, costs.channels());
}

}  // namespace gradsync::tools
