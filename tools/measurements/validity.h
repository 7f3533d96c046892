#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/measurements/measurement.h"

// Warnings: reasons not to trust a row.
namespace gradsync::tools {

// Warnings in the order in which a row shows them. Warnings that make a row useless come first.
enum class Warning {
  kWorldOfOne,         // "world=1"
  kSharedGpu,          // "shared-gpu:2"
  kSharedCpu,          // "shared-cpu:2"
  kWrong,              // "wrong:3"
  kUnequal,            // "unequal:lm_head.weight"; not for floors
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
  kBelowTheory,        // "below-theory:65%"
  kOneLaunch,          // "one-launch"
  kOutliers,           // "outliers:2"
  kTooFewForInterval,  // "n<10": see statistics.h
  kTooFewForP95,       // "n<20"
  kTooFewForP99,       // "n<100"
  kPublished,          // "published", "published:no-broadcast,rank0-only"
  kEndedEarly,         // "ended-early"
  kLeftEarly,          // "left-early"
  kTraced,             // "traced"
  kDirty,              // "dirty"
};

struct RowWarning {
  Warning kind = Warning::kWorldOfOne;
  std::string detail{};  // detail of the warning, such as "2"; may be empty

  auto operator<=>(const RowWarning&) const = default;
};
using Warnings = std::vector<RowWarning>;

bool Has(const Warnings& warnings, Warning warning);
// Returns the name of a warning: "n<100".
std::string_view WordOf(Warning warning);
// Returns the meaning of a warning, as a sentence that begins with a small letter.
std::string ExplanationOf(Warning warning);
// Returns the text of a cell: "shared-gpu:2 n<100".
std::string TextOf(const Warnings& warnings);

// A measurement, and the values of its row.
struct Evidence {
  const Measurement& measurement;
  const Series& times;                    // main times of the row
  double bus_bytes_per_second = 0;        // see BusBandwidth; NaN if unknown
  const Measurement* baseline = nullptr;  // the row's baseline; null if unknown

  const bench::ConfigFields& config() const { return measurement.record.config; }
  const bench::FactFields& facts() const { return measurement.record.facts; }
};

// Returns the fraction of the host's CPU time that other programs used during the steps; NaN if unknown.
double OthersShare(const Measurement& measurement, const Series& times);

// Returns all warnings about a row.
Warnings FindWarnings(const Evidence& evidence);

// Returns the bytes per second that each rank's link carries in a collective on a whole vector of `bytes` in
// `seconds` (nccl-tests, doc/PERFORMANCE.md). With n ranks this is bytes / seconds times 2 (n - 1) / n for
// all_reduce, (n - 1) / n for reduce_scatter and all_gather, and 1 for broadcast. One rank sends nothing;
// then the result is bytes / seconds. NaN without bytes or time.
double BusBandwidth(double bytes, double seconds, int64_t world_size,
                    std::string_view collective = "all_reduce");

}  // namespace gradsync::tools
