#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/timing/op_cost.h"
#include "model/autograd.h"
#include "model/tensor/cuda_clock.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/device.h"

namespace gradsync::bench {

// A range that was reported to the tracer of a device.
struct TracedOp {
  std::string name;
  int64_t begin_ns = 0;  // time on the clock of comm::Now()
  int64_t end_ns = 0;
  int parent = -1;  // index of the enclosing range, -1 if there is none
};

// An operation of a forward pass.
struct ComputedOp {
  std::string name;
  Flops flops;
  // The time, on the clock of comm::Now(), when the device ended the previous operation or, if later, the
  // last range; 0 if there was neither. Waits of forward for weights are between begin_ns and end_ns, because
  // an operation reads its weights when it begins; StepProfile takes them out.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// Records the ranges of one step, in the order of their beginnings, and the operations of the step's forward
// pass, with the device's times. On a GPU these are the times of events on the compute stream
// (phase_timer.h), because the host runs ahead of the GPU.
class OpRecorder : public model::Tracer {
 public:
  // Times operations with the CPU's clock.
  OpRecorder() = default;
  // Times operations with the clock of `device`. If `next` is not null, each Begin and End also calls the
  // same function of `next`. `device` and `next` must outlive this object.
  explicit OpRecorder(model::Device& device, model::Tracer* next = nullptr);

  void Begin(std::string_view name) override;
  void End() override;
  void Computed(std::string_view name, const model::Tensor& output,
                std::span<const model::Var> inputs) override;

  // Returns the ranges. All ranges must have ended. Blocks until the device has reached their ends.
  const std::vector<TracedOp>& ops();
  // Returns the operations of the forward pass. Blocks until the device has reached their ends.
  const std::vector<ComputedOp>& computed();
  // Removes all ranges and operations. All ranges must have ended.
  void Clear();

 private:
  // Events that this object reuses in the next step.
  using Events = std::vector<model::CudaEvent>;

  // Records the event with this index at the current position of the compute stream.
  void RecordEvent(Events& events, size_t index);

  model::Tracer* const next_ = nullptr;
  std::vector<TracedOp> ops_;
  int open_ = -1;
  model::CudaDevice* gpu_ = nullptr;  // null on the CPU
  // Event 2 i is at the beginning of range i, and event 2 i + 1 at its end.
  Events events_;
  std::vector<ComputedOp> computed_;
  // Number of ranges that began before each of these operations.
  std::vector<size_t> ranges_before_;
  Events computed_events_;                           // events at the ends of the operations
  std::shared_ptr<const model::CudaAnchor> anchor_;  // the last anchor before the first range
};

}  // namespace gradsync::bench
