#ifndef GRADSYNC_BENCH_RECORDS_STRATEGY_NAME_H_
#define GRADSYNC_BENCH_RECORDS_STRATEGY_NAME_H_

#include <string_view>

// Names in records that more than one program knows.
namespace gradsync::bench {

// A value of --backend that is no backend: what memory allows (bench/collectives/memory_limit.h).
inline constexpr char kMemoryLimit[] = "memory_limit";

// Before the names of another framework's strategies.
inline constexpr std::string_view kPeerPrefix = "pytorch_";
// Behind the name of a peer's strategy that ran its model compiled.
inline constexpr std::string_view kCompiled = "_compiled";

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_STRATEGY_NAME_H_
