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

// A range: a named span of time in a training step, from a call of OpRecorder::Begin to the matching call of
// End.
struct TracedOp {
  std::string name;
  int64_t begin_ns = 0;  // on the host's steady clock (comm::Now)
  int64_t end_ns = 0;
  int parent = -1;  // index, in OpRecorder::ops(), of the innermost range that contains this range, or -1
};

// What OpRecorder records of one operation of a forward pass.
struct ComputedOp {
  std::string name;
  Flops flops;
  // begin_ns and end_ns are times on the host's steady clock. OpRecorder is told when an operation ends, but
  // not when it begins. So begin_ns is the end of the previous operation, or of the last range (TracedOp)
  // before this operation, whichever is later. For the first operation, if no range came before it, begin_ns
  // is 0, and StepProfile uses the beginning of the step instead. If forward waits until weights for the
  // operation have come from other ranks, this wait lies between begin_ns and end_ns; on a CPU, StepProfile
  // subtracts the wait from the operation's time.
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// An OpRecorder records when the device begins and ends each range of a training step (a TracedOp), and when
// it ends each operation of the forward pass. On a GPU the times are those of CUDA events on the compute
// stream, because the host runs ahead of the GPU.
class OpRecorder : public model::Tracer {
 public:
  OpRecorder() = default;
  // `device` is the device that computes the training steps. Begin and End of this object also call Begin and
  // End of the tracer `next`, unless `next` is null. `device` and `next` must outlive this object.
  explicit OpRecorder(model::Device& device, model::Tracer* next = nullptr);

  void Begin(std::string_view name) override;
  void End() override;
  void Computed(std::string_view name, const model::Tensor& output,
                std::span<const model::Var> inputs) override;

  // Returns the ranges that began since the last Clear(), in the order of their beginnings. Call ops() only
  // after End was called for all ranges that have begun. On a GPU, ops() blocks until the GPU has reached the
  // end of every range that ops() returns.
  const std::vector<TracedOp>& ops();
  // Returns a ComputedOp for each operation of the forward pass since the last Clear(): its name, its
  // floating-point operations, begin_ns and end_ns. Call computed() only when ops() may be called. Blocks
  // until the device has computed these operations and has ended all recorded ranges.
  const std::vector<ComputedOp>& computed();
  // Removes all recorded ranges and operations. Call Clear() between two training steps, when all ranges have
  // ended.
  void Clear();

 private:
  using Events = std::vector<model::CudaEvent>;

  void RecordEvent(Events& events, size_t index);

  model::Tracer* const next_ = nullptr;
  std::vector<TracedOp> ops_;
  int open_ = -1;
  model::CudaDevice* gpu_ = nullptr;  // null on the CPU
  // On a GPU, events_[2 * i] is the CUDA event at the beginning of range ops_[i], and events_[2 * i + 1] the
  // one at its end.
  Events events_;
  std::vector<ComputedOp> computed_;
  // ranges_before_[i] is the number of recorded ranges (ops_) that had begun when the recorded operation
  // computed_[i] ended.
  std::vector<size_t> ranges_before_;
  Events computed_events_;                           // events at the ends of the operations
  std::shared_ptr<const model::CudaAnchor> anchor_;  // converts the times of events to the host's clock
};

}  // namespace gradsync::bench
