#ifndef GRADSYNC_TOOLS_PREDICT_CALIBRATE_H_
#define GRADSYNC_TOOLS_PREDICT_CALIBRATE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "tools/predict/step.h"

// From records to the inputs of a prediction.
namespace gradsync::tools {

using Records = std::vector<const bench::Record*>;

// What the records of //bench:calibrate say of a backend: steps of strategies that overlap nothing give the
// time of an all-reduce of each size inside a step, its use of processors, and what else a strategy does to
// memory; one that overlaps what both sides lose where they share processors; sweeps what other collectives
// and several in flight take, as ratios. Steps of `model` alone count where there are any: how often a small
// collective waits for a processor, and what overlap costs, differ between models. Empty where there are no
// such records.
std::optional<Calibration> CalibrationOf(const Records& records, std::string_view backend,
                                         std::string_view model = "");

// Steps without synchronisation: `floors` are the records of one configuration, of all launches. Ranks x
// rounds; empty where they hold no ready times.
std::vector<std::vector<Round>> RoundsOf(const Records& floors);

// The plan of a record with buckets. Empty where it cannot be predicted: the strategy is not exact, or the
// record is too old to hold what a plan needs.
std::optional<StepPlan> PlanOf(const bench::Record& record);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_CALIBRATE_H_
