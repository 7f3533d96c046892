#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bench/records/record.h"

namespace gradsync::bench {

// The parts of one rank's time in a training step, in ns; in a turn of several steps, their means. Parts do
// not overlap, and their sum is the time of the step. A part that was not measured by itself is empty; its
// time, if any, is then in another part.
//
// The waits of one rank may be longer than the time that communication costs, because it also waits while
// another rank still computes. So tools use the times of all ranks: waits for communication lengthen a step
// by the maximum of averaged() over ranks minus the maximum of worked() over ranks.
//
// On a GPU the times of single waits are not known. So on a GPU, sync_wait is only the time from the end of
// backward until Strategy::Finish is done, and the parts forward, backward and optimizer include all other
// waits.
struct StepTimes {
  using Part = std::optional<int64_t>;

  Part begin_step{};  // time of Strategy::BeginStep, including its waits; if empty, `forward` includes it
  // The times of forward and backward. With gradient accumulation, `forward` ends when the last backward pass
  // begins, so it includes the earlier backward passes. It also includes the loss and the broadcast of
  // buffers (of batch norms) with its waits.
  Part forward{}, backward{};
  Part hooks{};  // the strategy's hooks in the last backward pass, without waits; if empty, in `backward`
  // How long forward and backward waited for all-gathers, which collect weights. They have values only if the
  // CPU computes, and only for strategies of gradsync that may communicate before the last backward pass.
  Part forward_wait{}, backward_wait{};
  // The time from the end of backward until Strategy::Finish is done: gradients are then averaged, if the
  // strategy averages them. For gradsync's strategies on a CPU, the waits in forward, backward and the
  // optimizer's update are added, without those that forward_wait and backward_wait count.
  Part sync_wait{};
  // The time from the end of forward until the gradients are averaged. It has a value only for those of
  // PyTorch's strategies that wait for gradients inside backward; backward, hooks and sync_wait are then
  // empty.
  Part backward_and_sync{};
  Part optimizer{};  // the update of the weights; for gradsync's strategies on a CPU, without its waits

  // Each function returns a sum of parts. begin_step, hooks, forward_wait and backward_wait count as 0 if
  // they are empty. If another part that a sum needs is empty, the sum is empty.
  Part computed() const;  // forward and backward
  Part worked() const;    // computed(), begin_step and hooks
  Part averaged() const;  // worked() and waits()
  Part step() const;      // the whole step: begin_step, forward, after_forward() and optimizer

  Part waits() const;          // forward_wait, backward_wait and sync_wait
  Part after_forward() const;  // backward, hooks and waits() if they are known, else backward_and_sync
};

// A part of a step's time: the member of StepTimes that has it, and the name of its samples in records.
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

// Returns the mean of each part over `steps`. There must be at least one step, and each part must have a
// value in all steps or be empty in all steps.
StepTimes MeanOf(std::span<const StepTimes> steps);

void AddTo(SampleSeries& samples, const StepTimes& times);
// Returns the times of step `i` = 0, 1, ... from the samples of one rank. A part that has no sample for this
// step is empty.
StepTimes TimesAt(const SampleSeries& samples, size_t i);

}  // namespace gradsync::bench
