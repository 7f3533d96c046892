#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bench/records/record.h"

namespace gradsync::bench {

// The parts of the time that one rank needs for a training step, in ns. If several steps in a row were
// measured together, each part is a mean over these steps, rounded down. Parts do not overlap, and their sum
// is the time of the step. A part that was not measured by itself is empty (nullopt): another part includes
// its time, or it takes no time.
//
// The waits of one rank may be longer than the time that communication costs, because this rank also waits
// while another rank still computes. So tools use the times of all ranks: waits for communication lengthen a
// step by the maximum over ranks of averaged() (work and waits until gradients are averaged) minus the
// maximum over ranks of worked() (the work without these waits).
//
// On a GPU, the times of single waits for communication are not known, because the host does not see what a
// GPU waits for. So on a GPU, sync_wait is only the time from the end of backward until Strategy::Finish is
// done. On a GPU, the parts forward, backward and optimizer include the waits for communication in these
// phases.
struct StepTimes {
  using Part = std::optional<int64_t>;

  Part begin_step{};  // time of Strategy::BeginStep, including its waits; if empty, `forward` includes it
  // The times of the forward pass and of the backward pass. With gradient accumulation, `forward` ends when
  // the last backward pass begins, so it includes the earlier backward passes. `forward` also includes the
  // computation of the loss, and the broadcast of the buffers of batch-norm layers with the waits for it.
  Part forward{}, backward{};
  Part hooks{};  // the strategy's hooks in the last backward pass, without waits; if empty, in `backward`
  // How long the forward pass and the backward pass waited for all-gathers, which collect weights.
  // forward_wait and backward_wait are empty if a GPU computes, and for PyTorch's strategies. Both are also
  // empty unless Strategy::needs_use_hook() is true, or needs_every_pass() is true and the step has several
  // backward passes.
  Part forward_wait{}, backward_wait{};
  // The time from the end of backward until Strategy::Finish is done; on a GPU, until the GPU has done the
  // work of Finish. Finish waits until the gradients are averaged, unless the strategy is `none` or owns the
  // update (Traits::owns_update). For gradsync's strategies on a CPU, sync_wait also has the waits in the
  // forward pass, the backward pass and the optimizer's update, except those for the broadcast of buffers and
  // those that forward_wait and backward_wait count.
  Part sync_wait{};
  // The time from the end of forward until the gradients are averaged. This part has a value only for those
  // of PyTorch's strategies that wait for gradients inside the backward pass; the parts backward, hooks and
  // sync_wait are then empty.
  Part backward_and_sync{};
  Part optimizer{};  // the update of the weights; for gradsync's strategies on a CPU, without its waits

  // Each of the next six functions returns a sum of parts of the step's time (members of StepTimes). A sum is
  // empty if a part in it is empty, unless this part is begin_step, hooks, forward_wait or backward_wait.
  // These four parts are added as 0 if they are empty. If backward or sync_wait is empty, after_forward() and
  // step() use backward_and_sync instead.
  Part computed() const;  // forward and backward
  Part worked() const;    // computed(), begin_step and hooks
  Part averaged() const;  // worked() and waits()
  Part step() const;      // the whole step: begin_step, forward, after_forward() and optimizer

  Part waits() const;          // forward_wait, backward_wait and sync_wait
  Part after_forward() const;  // backward, hooks and waits() if they are known, else backward_and_sync
};

// Describes a part of a step's time: the member of StepTimes that has it, and the name of its samples in
// records.
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

// Returns the mean of each part (such as forward) over the training steps `steps`, rounded down to whole ns.
// There must be at least one step, and each part must have a value in all steps or be empty in all steps.
StepTimes MeanOf(std::span<const StepTimes> steps);

void AddTo(SampleSeries& samples, const StepTimes& times);
// `samples` are the samples of one rank's record. Returns the entry with the index `i` of each part's series
// in `samples`: the times of one step, or the means over steps that were measured together. A part whose
// series is missing in `samples`, or has no entry with this index, is nullopt.
StepTimes TimesAt(const SampleSeries& samples, size_t i);

}  // namespace gradsync::bench
