#pragma once

#include <cstdint>
#include <string_view>

#include "model/device.h"

namespace gradsync::bench {

// Profilers can filter ranges by their kind.
enum class RangeKind { kStep = 1, kPhase = 2, kOp = 3, kCollective = 4 };
inline constexpr RangeKind kRangeKinds[] = {RangeKind::kStep, RangeKind::kPhase, RangeKind::kOp,
                                            RangeKind::kCollective};
// "step", "phase", "op", "collective".
constexpr std::string_view Name(RangeKind kind) {
  constexpr std::string_view kNames[] = {"step", "phase", "op", "collective"};
  return kNames[static_cast<int>(kind) - 1];
}

// Receives the named ranges of a training step as they begin and end, for a profiler that keeps the time.
class RangeSink : public model::Tracer {
 public:
  // Ranges that nest, on the calling thread: Pop ends the one pushed last.
  virtual void Push(RangeKind kind, std::string_view name) = 0;
  virtual void Pop() = 0;
  // Ranges that overlap others, and may end on another thread. Stop takes what Start returned.
  virtual uint64_t Start(RangeKind kind, std::string_view name) = 0;
  virtual void Stop(uint64_t range) = 0;

  // The interface of a device's tracer: each operation is a nested range.
  void Begin(std::string_view name) final { Push(RangeKind::kOp, name); }
  void End() final { Pop(); }
};

}  // namespace gradsync::bench
