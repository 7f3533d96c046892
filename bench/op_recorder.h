#ifndef GRADSYNC_BENCH_OP_RECORDER_H_
#define GRADSYNC_BENCH_OP_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

// Keeps the ranges of one step, in the order of their begins: when the device was in them, on a GPU by events
// of its compute stream (see phase_timer.h), because there the host runs ahead.
class OpRecorder : public model::Tracer {
 public:
  // Of the CPU.
  OpRecorder() = default;
  // Of `device`, which must outlive it.
  explicit OpRecorder(model::Device& device);

  void Begin(std::string_view name) override;
  void End() override;

  // All must have ended. Blocks until the device has passed them.
  const std::vector<TracedOp>& ops();
  // Forgets the ranges, all of which must have ended.
  void Clear();

 private:
  // Puts an event where the compute stream is now.
  void RecordEvent(size_t index);

  std::vector<TracedOp> ops_;
  int open_ = -1;
  model::CudaDevice* gpu_ = nullptr;  // null on the CPU
  std::vector<model::CudaEvent>
      events_;  // of op i: 2 i at its begin, 2 i + 1 at its end; kept for the next step
  std::shared_ptr<const model::CudaAnchor> anchor_;  // the last before the first op
};

// Adds up where time goes, by name of operation.
class OpProfile {
 public:
  // Adds the ranges of one step. A range's own time is what is not spent in the ranges inside it.
  void Add(const std::vector<TracedOp>& ops);

  // A table, the largest share first: name, calls per step, ms per step, share of all.
  std::string ToString() const;

 private:
  struct Total {
    int64_t calls = 0;
    int64_t own_ns = 0;
  };
  std::map<std::string, Total> totals_;
  int64_t steps_ = 0;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_OP_RECORDER_H_
