#ifndef GRADSYNC_TOOLS_RECORDS_VALIDITY_H_
#define GRADSYNC_TOOLS_RECORDS_VALIDITY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/records/measurement.h"

// Reasons not to believe a row.
namespace gradsync::tools {

// In the order in which a row shows them: first what makes it worthless.
enum class Warning {
  kWorldOfOne,         // "world=1"
  kSharedGpu,          // "shared-gpu:2"
  kSharedCpu,          // "shared-cpu:2"
  kWrong,              // "wrong:3"
  kUnequal,            // "unequal:lm_head.weight"; not of floors
  kDrifts,             // "drifts"
  kTooFast,            // "too-fast:779GB/s"
  kRanksMissing,       // "ranks-missing:1/4"
  kStepsDiffer,        // "steps-differ"
  kRanksDisagree,      // "ranks-disagree", "ranks-disagree:nodes-0,1"
  kInBlocks,           // "in-blocks"
  kDisturbed,          // "disturbed:12%"
  kThrottled,          // "throttled:38/40"
  kOversubscribed,     // "oversubscribed"
  kRowsSaveNothing,    // "rows-save-nothing"
  kUnitsDiffer,        // "units-differ:4x"
  kUnsyncedTimer,      // "unsynced-timer"
  kUntimedCopies,      // "untimed-copies"
  kNoBroadcast,        // "no-broadcast"
  kNoOptimizer,        // "no-optimizer"
  kRankZeroOnly,       // "rank0-only"
  kBelowTheory,        // "below-theory:65%"
  kOneLaunch,          // "one-launch"
  kOutliers,           // "outliers:2"
  kTooFewForInterval,  // "n<10": see statistics.h
  kTooFewForP95,       // "n<20"
  kTooFewForP99,       // "n<100"
  kPublished,          // "published"
  kEndedEarly,         // "ended-early"
  kLeftEarly,          // "left-early"
  kTraced,             // "traced"
  kDirty,              // "dirty"
};

struct RowWarning {
  Warning kind = Warning::kWorldOfOne;
  std::string detail{};  // how much of it: "2"; may be empty

  auto operator<=>(const RowWarning&) const = default;
};
using Warnings = std::vector<RowWarning>;

bool Has(const Warnings& warnings, Warning warning);
// What it is called: "n<100".
std::string_view WordOf(Warning warning);
// What it means, as a sentence without a capital.
std::string ExplanationOf(Warning warning);
// What a cell says: "shared-gpu:2 n<100".
std::string TextOf(const Warnings& warnings);

// A measurement, and what the row shows of it.
struct Evidence {
  const Measurement& measurement;
  const Series& times;                    // the row's main times
  double bus_bytes_per_second = 0;        // see BusBandwidth; NaN if unknown
  const Measurement* baseline = nullptr;  // that the row is compared with; null if unknown

  const bench::ConfigFields& config() const { return measurement.record.config; }
  const bench::FactFields& facts() const { return measurement.record.facts; }
};

// Which part of the host's processor time other programs took during its steps; NaN if unknown.
double OthersShare(const Measurement& measurement, const Series& times);

// All that there is against it.
Warnings FindWarnings(const Evidence& evidence);

// Bytes per second that each rank's link has to carry for a collective on `bytes` in `seconds` (nccl-tests,
// doc/PERFORMANCE.md): all_reduce 2 (n - 1) / n times bytes / seconds, reduce_scatter and all_gather, of
// whose whole vector bytes are counted, (n - 1) / n times that, broadcast once. With one rank, where nothing
// is sent, bytes / seconds, as if it were. NaN without bytes or time.
double BusBandwidth(double bytes, double seconds, int64_t world_size,
                    std::string_view collective = "all_reduce");

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_VALIDITY_H_
