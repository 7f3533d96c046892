#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "model/tensor/device.h"

namespace gradsync::bench {

// The times at which the phases of a training step begin and end. At kBackwardEnd the last gradient is
// computed, and collectives that started in backward may still be in flight. bench/records/step_times.h
// defines the parts of a phase.
enum class Mark { kStepBegin, kForwardEnd, kBackwardEnd, kSyncEnd, kStepEnd };
inline constexpr size_t kNumMarks = 5;

// The times at which a step reached its marks, in ns.
struct StepMarks {
  std::array<int64_t, kNumMarks> at_ns{};

  int64_t operator[](Mark mark) const { return at_ns[static_cast<size_t>(mark)]; }
  int64_t Between(Mark from, Mark to) const { return (*this)[to] - (*this)[from]; }

  int64_t step_ns() const { return Between(Mark::kStepBegin, Mark::kStepEnd); }
};

// Records the marks of steps, on the clock of the device that computes.
class PhaseTimer {
 public:
  virtual ~PhaseTimer() = default;
  // Records a mark after all earlier work of the compute stream. kStepBegin must be the first mark; on CUDA
  // it waits for the compute stream, to compare the clocks of the GPU and the host. Other marks never block.
  virtual void Take(Mark mark) = 0;
  // Returns the marks of the last step. Marks that were not recorded are 0. Blocks until the device has
  // reached all marks.
  virtual StepMarks Read() = 0;
};

// Makes a timer. For the CPU it reads the host's steady clock, which also times communication. For CUDA it
// records events on the compute stream, and converts their times to the host's clock
// (model/tensor/cuda_clock.h); differences between events are the GPU's own. The device must outlive the
// timer.
std::unique_ptr<PhaseTimer> MakePhaseTimer(model::Device& device);

// Returns the name of the clock for records: "steady_clock, host, ns" or "CUDA events, device, ns".
std::string_view ClockName(const model::Device& device);

}  // namespace gradsync::bench
