#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bench/records/record.h"

namespace gradsync::bench {

// The parts of one rank's time in a step, in ns. Parts do not overlap, and their sum is the time of the step.
// A part that is not known is empty, and its time is included in another part. If a turn has several steps,
// each part is the mean over the steps.
//
// Waits are the times that one rank waits. What synchronisation exposes is one value for all ranks: the
// maximum of averaged() over ranks minus the maximum of worked() over ranks (tools/analysis/pairs.cc). So a
// wait for a rank that still computes does not count.
//
// On a GPU the times of single waits are not known. Then sync_wait has only the time from the end of
// backward, and all other waits are included in forward, backward and, for strategies that communicate in the
// update, optimizer.
struct StepTimes {
  using Part = std::optional<int64_t>;

  Part begin_step{};  // the strategy's own work before forward (BeginStep); if empty, `forward` includes it
  // Computation. Forward includes the loss, the broadcast of buffers, and all passes before the last
  // backward.
  Part forward{}, backward{};
  Part hooks{};  // the strategy's own work in hooks (OnGradReady, OnUse); if empty, `backward` includes it
  // The times that forward and backward waited for weights. These waits are known only for strategies that
  // may communicate before the last backward pass; for other strategies the fields are empty, and nothing
  // waits for weights.
  Part forward_wait{}, backward_wait{};
  // The time from the end of backward until every gradient is averaged, and all other waits of forward, hooks
  // and the update.
  Part sync_wait{};
  // The sum of `backward`, `hooks` and all waits, if these parts are not known separately; else empty.
  Part backward_and_sync{};
  Part optimizer{};  // the update, without its waits, except on a GPU

  // The following functions return sums of parts. Each sum includes the previous sum, and is empty if one of
  // its parts is not known.
  Part computed() const;  // forward and backward
  Part worked() const;    // adds the strategy's own work
  Part averaged() const;  // adds all waits
  Part step() const;      // adds the optimizer, which gives the whole step

  Part waits() const;          // all waits of this rank
  Part after_forward() const;  // backward, hooks and all waits, also if they are known only as a sum
};

// The name of a part in the samples of a record.
struct StepPart {
  SampleName name;
  StepTimes::Part StepTimes::*part;
};
inline constexpr StepPart kStepParts[] = {
    {"begin_step_ns", &StepTimes::begin_step},     {"forward_ns", &StepTimes::forward},
    {"backward_ns", &StepTimes::backward},         {"hooks_ns", &StepTimes::hooks},
    {"forward_wait_ns", &StepTimes::forward_wait}, {"backward_wait_ns", &StepTimes::backward_wait},
    {"sync_wait_ns", &StepTimes::sync_wait},       {"backward_and_sync_ns", &StepTimes::backward_and_sync},
    {"optimizer_ns", &StepTimes::optimizer},
};

// Returns the mean of each part over the steps. There must be at least one step, and all steps must have
// equal sets of known parts.
StepTimes MeanOf(std::span<const StepTimes> steps);

// Adds the known parts to the samples.
void AddTo(SampleSeries& samples, const StepTimes& times);
// Returns the parts of the i-th step. A part that has no i-th sample is empty.
StepTimes TimesAt(const SampleSeries& samples, size_t i);

}  // namespace gradsync::bench
