#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "model/tensor/device.h"

namespace gradsync::bench {

// The points of a training step at which a PhaseTimer records the time. At kBackwardEnd this rank has
// computed its last gradient, but collectives may still be in flight. At kSyncEnd Strategy::Finish is done:
// gradients are averaged, unless the strategy is `none` or owns the update (Traits::owns_update).
enum class Mark { kStepBegin, kForwardEnd, kBackwardEnd, kSyncEnd, kStepEnd };
inline constexpr size_t kNumMarks = 5;

// The times at which a training step reached its marks (points such as the end of forward), in ns of the
// host's steady clock.
struct StepMarks {
  std::array<int64_t, kNumMarks> at_ns{};

  int64_t operator[](Mark mark) const { return at_ns[static_cast<size_t>(mark)]; }
  int64_t Between(Mark from, Mark to) const { return (*this)[to] - (*this)[from]; }

  int64_t step_ns() const { return Between(Mark::kStepBegin, Mark::kStepEnd); }
};

// Records when a device (CPU or GPU) reaches each mark (a point such as the end of forward) of a training
// step.
class PhaseTimer {
 public:
  virtual ~PhaseTimer() = default;
  // On a CPU, records the time of this call as the time of `mark`. On a GPU, records when the compute stream
  // has done all work that was issued to it before this call. The first call of Take in a step must have the
  // mark kStepBegin. On a GPU, a call with kStepBegin blocks until the compute stream is idle, because Take
  // then compares the clocks of the GPU and the host. Calls with other marks never block.
  virtual void Take(Mark mark) = 0;
  // Returns when the device reached each mark of the last step, in ns of the host's steady clock. The time of
  // a mark is 0 if Take was not called with the mark in the last step. Blocks until the device has reached
  // all marks with which Take was called.
  virtual StepMarks Read() = 0;
};

// Returns a timer for the marks of steps that `device` computes; `device` must outlive the timer. For the CPU
// the timer reads the host's steady clock. For a GPU it records CUDA events on the compute stream, and
// converts their times to the host's steady clock. So the times of marks (such as the end of forward) can be
// compared with the times of collectives, which are also on the host's steady clock.
std::unique_ptr<PhaseTimer> MakePhaseTimer(model::Device& device);

// Returns the text that names the clock of the PhaseTimer of `device` in records: "steady_clock, host, ns" or
// "CUDA events, device, ns".
std::string_view ClockName(const model::Device& device);

}  // namespace gradsync::bench
