#ifndef GRADSYNC_BENCH_RECORDS_STRATEGY_NAME_H_
#define GRADSYNC_BENCH_RECORDS_STRATEGY_NAME_H_

#include <string>
#include <string_view>

// What names in records say.
namespace gradsync::bench {

// A value of --backend that is no backend: what memory allows (bench/collectives/memory_limit.h).
inline constexpr char kMemoryLimit[] = "memory_limit";

// Before the names of another framework's strategies.
inline constexpr std::string_view kPeerPrefix = "pytorch_";
// Behind the name of a peer's strategy that ran its model compiled.
inline constexpr std::string_view kCompiled = "_compiled";

// The name without it.
inline std::string_view EagerName(std::string_view strategy) {
  if (strategy.ends_with(kCompiled)) strategy.remove_suffix(kCompiled.size());
  return strategy;
}

// The strategy without synchronisation against which the cost of this one is counted: "none", or the other
// framework's.
inline std::string FloorOf(std::string_view strategy) {
  if (!strategy.starts_with(kPeerPrefix)) return "none";
  return std::string(kPeerPrefix) + "none" + std::string(strategy.ends_with(kCompiled) ? kCompiled : "");
}

// Whether a strategy, gradsync's own or another framework's, does not synchronise.
inline bool IsFloor(std::string_view strategy) { return strategy == FloorOf(strategy); }

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_STRATEGY_NAME_H_
