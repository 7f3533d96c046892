#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/measurements/measurement.h"

// Warnings are reasons not to trust a row of a table of results. The function ExplanationOf returns what a
// warning means.
namespace gradsync::tools {

// The kinds of warnings about a row of a table, in the order in which the row shows them.
enum class Warning {
  kWorldOfOne,         // "world=1"
  kSharedGpu,          // "shared-gpu:2"
  kSharedCpu,          // "shared-cpu:2"
  kWrong,              // "wrong:3"
  kUnequal,            // "unequal:lm_head.weight"
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
  kTooFewForInterval,  // "n<10": see kFewestForInterval
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
  std::string detail{};  // what stands after the colon; may be empty

  auto operator<=>(const RowWarning&) const = default;
};
using Warnings = std::vector<RowWarning>;

bool Has(const Warnings& warnings, Warning warning);
// Returns the name of a warning, such as "n<100".
std::string_view WordOf(Warning warning);
std::string ExplanationOf(Warning warning);
// Returns the warnings as a cell of a table shows them: "shared-gpu:2 n<100".
std::string TextOf(const Warnings& warnings);

// The measured values from which the function FindWarnings decides which warnings a row of a table gets.
struct Evidence {
  const Measurement& measurement;
  const Series& times;                    // of whole steps or collectives
  double bus_bytes_per_second = 0;        // in collectives; NaN if unknown
  const Measurement* baseline = nullptr;  // the row's baseline; null if unknown

  const bench::ConfigFields& config() const { return measurement.record.config; }
  const bench::FactFields& facts() const { return measurement.record.facts; }
};

// Returns the share of a host's CPU time that other work used: programs other than the ranks, and the
// kernel's network work. The share is the mean CPU time of other work in a step, divided by the mean step
// time and by the number of CPUs. The CPUs are those that the ranks on the lowest rank's host may use. With
// several hosts, the CPU time of other work in a step is that of the host with the most other work. `times`
// has the times of whole steps. Returns NaN if the CPU time of other work was not measured, or if the number
// of CPUs is unknown.
double OthersShare(const Measurement& measurement, const Series& times);

Warnings FindWarnings(const Evidence& evidence);

// Computes the bus bandwidth of a collective that takes `seconds`, in bytes per second, by the formula of
// nccl-tests (its doc/PERFORMANCE.md). `bytes` is the size of the whole vector, also if each rank has only a
// part of it. With n ranks the result is bytes / seconds times 2 (n - 1) / n for all_reduce, (n - 1) / n for
// reduce_scatter and all_gather, and 1 for broadcast. With one rank, which sends nothing, the result is bytes
// / seconds. The result is NaN unless `bytes` and `seconds` are positive.
double BusBandwidth(double bytes, double seconds, int64_t world_size,
                    std::string_view collective = "all_reduce");

}  // namespace gradsync::tools
