#pragma once

#include <cstdint>
#include <string_view>

#include "model/tensor/device.h"

namespace gradsync::bench {

// The kind of a range, by which profilers can filter ranges.
enum class RangeKind { kStep = 1, kPhase = 2, kOp = 3, kCollective = 4 };
inline constexpr RangeKind kRangeKinds[] = {RangeKind::kStep, RangeKind::kPhase, RangeKind::kOp,
                                            RangeKind::kCollective};
// Returns "step", "phase", "op" or "collective".
constexpr std::string_view Name(RangeKind kind) {
  constexpr std::string_view kNames[] = {"step", "phase", "op", "collective"};
  return kNames[static_cast<int>(kind) - 1];
}

// Receives the beginning and the end of each named range of a training step. A profiler that implements this
// interface measures the times.
class RangeSink : public model::Tracer {
 public:
  // Push begins a range that is nested in the previous range of the calling thread. Pop ends the range that
  // was pushed last.
  virtual void Push(RangeKind kind, std::string_view name) = 0;
  virtual void Pop() = 0;
  // Start begins a range that may overlap other ranges and may end on another thread. Stop ends the range
  // whose number Start returned.
  virtual uint64_t Start(RangeKind kind, std::string_view name) = 0;
  virtual void Stop(uint64_t range) = 0;

  // Implements the tracer of a device: each operation is a nested range.
  void Begin(std::string_view name) final { Push(RangeKind::kOp, name); }
  void End() final { Pop(); }
};

}  // namespace gradsync::bench
