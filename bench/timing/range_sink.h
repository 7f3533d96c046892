#pragma once

#include <cstdint>
#include <string_view>

#include "model/tensor/device.h"

namespace gradsync::bench {

// The kind of a range (a named span of time in a training step). By the kind, users of a profiler can choose
// which ranges the profiler shows.
enum class RangeKind { kStep = 1, kPhase = 2, kOp = 3, kCollective = 4 };
inline constexpr RangeKind kRangeKinds[] = {RangeKind::kStep, RangeKind::kPhase, RangeKind::kOp,
                                            RangeKind::kCollective};
constexpr std::string_view Name(RangeKind kind) {
  constexpr std::string_view kNames[] = {"step", "phase", "op", "collective"};
  return kNames[static_cast<int>(kind) - 1];
}

// A RangeSink is told when the ranges of a training step begin and end: the step, its phases, the broadcast
// of buffers, the operations of backward, and the strategy's collectives. The sink that MakeNvtxSink returns
// passes the ranges on to a profiler, which measures the times.
class RangeSink : public model::Tracer {
 public:
  // Push begins a range: a named span of time, which a profiler shows. Pop ends the range that the calling
  // thread pushed last and has not ended.
  virtual void Push(RangeKind kind, std::string_view name) = 0;
  virtual void Pop() = 0;
  // Start begins a range, a named span of time that may overlap other spans, and returns the range's number.
  // Stop, which may be called on another thread, ends the range with the number `range`.
  virtual uint64_t Start(RangeKind kind, std::string_view name) = 0;
  virtual void Stop(uint64_t range) = 0;

  // If a RangeSink is set as the tracer of the model's device, model::Backward calls Begin and End for each
  // operation of the backward pass. If the RangeSink is the `tracer` of Trainer::Step, the trainer also calls
  // Begin before, and End after, the broadcast of the model's buffers (such as those of batch norms).
  void Begin(std::string_view name) final { Push(RangeKind::kOp, name); }
  void End() final { Pop(); }
};

}  // namespace gradsync::bench
