#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/records/step_times.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/phase_timer.h"
#include "bench/timing/step_wait.h"
#include "model/tensor/device.h"
#include "model/tensor/dtype.h"

namespace gradsync::bench {

// The peak rate of a device, and how it was measured.
struct Peak {
  double per_second = 0;
  std::string source;
};

// Measures the peak floating-point operations per second: the fastest of matrix products of several shapes,
// in `dtype`, and on a CPU also in the type in which `dtype` is computed. Takes less than a second. All ranks
// of a host must call this at one time, because they also train at one time.
Peak MeasureFlops(const model::DevicePtr& device, model::DType dtype);

// Collects the time of one variant's steps by phase and operation, and the floating-point operations in this
// time. Two kinds of entries have time that belongs to no operation: "other" in forward and backward is the
// time between operations, and "waits" of the phase "sync" is StepTimes::waits(). Operations do not include
// waits in them, except on a GPU, where these waits are not known.
class StepProfile {
 public:
  // `optimizer` is the optimizer's name.
  StepProfile(Peak peak_flops, std::string optimizer)
      : peak_flops_(std::move(peak_flops)), optimizer_(std::move(optimizer)) {}

  // Adds a step: its marks, the times of its parts (each part must be known by itself), its waits, the
  // operations of its forward pass, and the ranges that its tracer recorded.
  void Add(const StepMarks& marks, const StepTimes& times, std::span<const StepWait> waits,
           const std::vector<ComputedOp>& forward, const std::vector<TracedOp>& ranges);

  // Returns a table of operations, ordered by their share of the step. The columns are calls per step, ms per
  // step, share of the step, GFLOP per step, and GFLOP/s. A last line compares the whole step with the peak.
  // Needs at least one step.
  std::string ToString() const;

  // Writes samples named "<phase>.<operation>_ns"; the waits are "sync.exposed_ns".
  void WriteTo(Record& record) const;

 private:
  struct Entry {
    std::string phase, name;
    int64_t calls = 0;
    double flops = 0;                  // floating-point operations of all steps
    std::vector<int64_t> own_ns = {};  // time of each step

    double total_ns() const;
  };

  // Returns the entry, which is made if it does not exist, with a sample for the current step.
  Entry& EntryOf(std::string_view phase, std::string_view name);
  // `left_ns` is the time of the phase minus the time of its operations.
  void AddRest(std::string_view phase, std::string_view name, int64_t left_ns);

  const Peak peak_flops_;
  const std::string optimizer_;
  std::vector<Entry> entries_;
  std::vector<int64_t> step_ns_;
};

}  // namespace gradsync::bench
