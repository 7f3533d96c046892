#pragma once

#include <cstdint>
#include <string_view>

#include "model/tensor/device.h"

namespace gradsync::bench {

// The kind of a range (a named span of time), by which a profiler can filter.
enum class RangeKind { kStep = 1, kPhase = 2, kOp = 3, kCollective = 4 };
inline constexpr RangeKind kRangeKinds[] = {RangeKind::kStep, RangeKind::kPhase, RangeKind::kOp,
                                            RangeKind::kCollective};
constexpr std::string_view Name(RangeKind kind) {
  constexpr std::string_view kNames[] = {"step", "phase", "op", "collective"};
  return kNames[static_cast<int>(kind) - 1];
}

// Is told when each range of a training step begins and ends. An implementation passes this on to a profiler,
// which measures the times.
class RangeSink : public model::Tracer {
 public:
  // Push begins a range inside the range that the calling thread pushed before. Pop ends the range that was
  // pushed last.
  virtual void Push(RangeKind kind, std::string_view name) = 0;
  virtual void Pop() = 0;
  // Start begins a range that may overlap other ranges and may end on another thread. Stop ends the range
  // whose number Start returned.
  virtual uint64_t Start(RangeKind kind, std::string_view name) = 0;
  virtual void Stop(uint64_t range) = 0;

  // A sink can be the tracer of a model::Device. Then Begin and End are called for each operation of backward
  // and for the broadcast of buffers, and each of these becomes a nested range of kind kOp.
  void Begin(std::string_view name) final { Push(RangeKind::kOp, name); }
  void End() final { Pop(); }
};

}  // namespace gradsync::bench
