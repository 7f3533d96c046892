#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "model/device.h"

namespace gradsync::bench {

// The moments between which a training step's phases lie. kBackwardEnd: the last gradient is computed, and
// what Backward started may still be in flight. What a phase's time is made of is in
// bench/records/step_times.h.
enum class Mark { kStepBegin, kForwardEnd, kBackwardEnd, kSyncEnd, kStepEnd };
inline constexpr size_t kNumMarks = 5;

// When a step reached its marks, in ns.
struct StepMarks {
  std::array<int64_t, kNumMarks> at_ns{};

  int64_t operator[](Mark mark) const { return at_ns[static_cast<size_t>(mark)]; }
  int64_t Between(Mark from, Mark to) const { return (*this)[to] - (*this)[from]; }

  int64_t step_ns() const { return Between(Mark::kStepBegin, Mark::kStepEnd); }
};

// Takes the marks of one step after another, on the clock of the device that does the work.
class PhaseTimer {
 public:
  virtual ~PhaseTimer() = default;
  // All earlier work of the compute stream lies before the mark. kStepBegin is taken first; on CUDA it waits
  // for the compute stream, to compare the GPU's clock with the host's. The others never block.
  virtual void Take(Mark mark) = 0;
  // The marks of the last step; those that it did not take are 0. Blocks until the device has passed them.
  virtual StepMarks Read() = 0;
};

// For the CPU: the host's steady clock, the one that communication intervals are on. For CUDA: events on the
// compute stream, given on the host's clock like the intervals (model/cuda_clock.h); the differences between
// them are the GPU's own. The device must outlive the timer.
std::unique_ptr<PhaseTimer> MakePhaseTimer(model::Device& device);

// What such times are, for the record: "steady_clock, host, ns" or "CUDA events, device, ns".
std::string_view ClockName(const model::Device& device);

}  // namespace gradsync::bench
