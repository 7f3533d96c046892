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
#include "model/cuda_clock.h"
#include "model/cuda_device.h"
#include "model/device.h"

namespace gradsync::bench {

// One range that a device's tracer was told of.
struct TracedOp {
  std::string name;
  int64_t begin_ns = 0;  // on comm::Now()
  int64_t end_ns = 0;
  int parent = -1;  // index of the range around it, -1 if there is none
};

// One operation of a forward pass.
struct ComputedOp {
  std::string name;
  Flops flops;
  // On comm::Now(): when the device ended the operation before, or a range that ended later; 0 if there was
  // neither.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// Keeps the ranges of one step, in the order of their begins, and the operations of its forward pass, with
// the device's times: on a GPU those of events on its compute stream (see phase_timer.h), because the host
// runs ahead.
class OpRecorder : public model::Tracer {
 public:
  // Records on the CPU.
  OpRecorder() = default;
  // Records on `device`, and passes ranges on to `next`, if there is one. Both must outlive this object.
  explicit OpRecorder(model::Device& device, model::Tracer* next = nullptr);

  void Begin(std::string_view name) override;
  void End() override;
  void Computed(std::string_view name, const model::Tensor& output,
                std::span<const model::Var> inputs) override;

  // All must have ended. Blocks until the device has passed them.
  const std::vector<TracedOp>& ops();
  // The same of the forward pass.
  const std::vector<ComputedOp>& computed();
  // Forgets everything. All ranges must have ended.
  void Clear();

 private:
  // Events that are kept for the next step.
  using Events = std::vector<model::CudaEvent>;

  // Puts one of the events where the compute stream is now.
  void RecordEvent(Events& events, size_t index);

  model::Tracer* const next_ = nullptr;
  std::vector<TracedOp> ops_;
  int open_ = -1;
  model::CudaDevice* gpu_ = nullptr;  // null on the CPU
  Events events_;                     // of op i: 2 i at its begin, 2 i + 1 at its end
  std::vector<ComputedOp> computed_;
  std::vector<size_t> ranges_before_;                // how many had begun before each of these
  Events computed_events_;                           // at their ends
  std::shared_ptr<const model::CudaAnchor> anchor_;  // the last before the first op
};

}  // namespace gradsync::bench
