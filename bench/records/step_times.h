#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bench/records/record.h"

namespace gradsync::bench {

// The parts of one rank's time in a training step, in ns. Parts do not overlap, and their sum is the time of
// the step. If a part is not known by itself, it is empty, and its time is included in another part.
//
// The waits of one rank may be longer than the time that communication costs, because it also waits while
// another rank still computes. Tools compute the cost of communication in a step from all ranks: the maximum
// of averaged() over ranks minus the maximum of worked() over ranks.
//
// On a GPU the times of single waits are not known. There, sync_wait is only the time from the end of
// backward until every gradient is averaged; all other waits are included in forward, backward and optimizer.
struct StepTimes {
  using Part = std::optional<int64_t>;

  Part begin_step{};  // the strategy's own work before forward (BeginStep); if empty, `forward` includes it
  // The times of computation. With gradient accumulation, `forward` includes all passes before the last
  // backward pass. It also includes the loss and the broadcast of buffers (of batch norms).
  Part forward{}, backward{};
  Part hooks{};  // the strategy's own work in hooks (OnGradReady, OnUse); if empty, `backward` includes it
  // How long forward and backward waited for weights. Empty if they cannot wait for weights, and on a GPU.
  Part forward_wait{}, backward_wait{};
  // How long the rank waited for gradients: the time from the end of backward until every gradient is
  // averaged, and all waits in forward, in hooks and in the update that forward_wait and backward_wait do not
  // count.
  Part sync_wait{};
  // The sum of `backward`, `hooks` and all waits for communication. Only those of PyTorch's strategies that
  // cannot report these parts singly have it; else empty.
  Part backward_and_sync{};
  Part optimizer{};  // the update, without its waits, except on a GPU

  // Sums of parts: each of the next four functions returns the previous one's sum plus more parts. A sum is
  // empty if one of its parts is not known.
  Part computed() const;  // forward and backward
  Part worked() const;    // adds the strategy's own work
  Part averaged() const;  // adds all waits
  Part step() const;      // adds the optimizer, which gives the whole step

  Part waits() const;          // all waits of this rank
  Part after_forward() const;  // backward, hooks and all waits, also if they are known only as a sum
};

// A part of a step, and the name of its samples in a record.
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

// Returns the mean of each part over `steps`. There must be at least one step, and each part must
// have a value in all of the steps or be empty in all.
StepTimes MeanOf(std::span<const StepTimes> steps);

void AddTo(SampleSeries& samples, const StepTimes& times);
// Returns the parts of the i-th step of a record. A part without an i-th sample is empty.
StepTimes TimesAt(const SampleSeries& samples, size_t i);

}  // namespace gradsync::bench
