#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bench/records/record.h"

namespace gradsync::bench {

// Where one rank's time went in a step, in ns: parts that have nothing in common and add up to the step. A
// part that is not known is empty, and its time lies in another one. With several steps in a turn these are
// means of them.
struct StepTimes {
  using Part = std::optional<int64_t>;

  Part begin_step{};  // the strategy's own work before forward (BeginStep); empty: in `forward`
  // Computation. Forward has the loss, the broadcast of buffers, and all passes before the last backward.
  Part forward{}, backward{};
  Part hooks{};  // the strategy's own work in hooks (OnGradReady, OnUse); empty: in `backward`
  // What these phases waited for weights; known of strategies that may communicate before the last backward
  // pass. Empty: nothing.
  Part forward_wait{}, backward_wait{};
  // From the end of backward until every gradient is averaged, and what forward, hooks and the update waited
  // for anything else.
  Part sync_wait{};
  // `backward`, `hooks`, and all waits, where nobody tells them apart; else empty.
  Part backward_and_sync{};
  Part optimizer{};  // the update, without what it waited

  // Sums, each with all of the one before it; empty if a part is not known.
  Part computed() const;  // forward and backward
  Part worked() const;    // and the strategy's own work
  Part averaged() const;  // and all waits
  Part step() const;      // and the optimizer: all of it

  Part exposed() const;        // all waits
  Part after_forward() const;  // backward, hooks and all waits, told apart or not
};

// What each part is called among the samples of a record.
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

// Each part's mean over the steps, at least one, of which all know the same parts.
StepTimes MeanOf(std::span<const StepTimes> steps);

// Adds the parts that are known to the samples.
void AddTo(SampleSeries& samples, const StepTimes& times);
// Those of the i-th step. A series that is too short has no part in it.
StepTimes TimesAt(const SampleSeries& samples, size_t i);

}  // namespace gradsync::bench
