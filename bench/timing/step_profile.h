#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/phase_timer.h"
#include "model/device.h"
#include "model/dtype.h"

namespace gradsync::bench {

// What a device does per second at best, and how that was measured.
struct Peak {
  double per_second = 0;
  std::string source;
};

// Floating-point operations: the fastest of products of several shapes, of `dtype`, on a CPU also of what it
// is computed in, in less than a second. To be called on all ranks of a host at once, because they compute at
// once.
Peak MeasureFlops(const model::DevicePtr& device, model::DType dtype);

// Where the time of one variant's steps goes, by phase and operation, and what operations compute in it. Time
// that belongs to no operation has rows of its own: "other" of forward and backward, for what lies between
// operations, and "exposed" for the wait for gradients.
class StepProfile {
 public:
  // `optimizer`: its name.
  StepProfile(Peak peak_flops, std::string optimizer)
      : peak_flops_(std::move(peak_flops)), optimizer_(std::move(optimizer)) {}

  // Adds a step: its marks, what of it was the optimizer's, its forward pass's operations, and the ranges of
  // its tracer.
  void Add(const StepMarks& marks, int64_t optimizer_ns, const std::vector<ComputedOp>& forward,
           const std::vector<TracedOp>& ranges);

  // A table, the largest share first: per step calls, ms, share of the step, GFLOP, and GFLOP/s. Then a line
  // that compares the whole step with the peak. Needs at least one step.
  std::string ToString() const;

  // Samples "<phase>.<operation>_ns".
  void WriteTo(Record& record) const;

 private:
  struct Row {
    std::string phase, name;
    int64_t calls = 0;
    double flops = 0;                  // of all steps
    std::vector<int64_t> own_ns = {};  // by step

    double total_ns() const;
  };

  // The row, made if it is not there, with a sample for the step that is being added.
  Row& RowOf(std::string_view phase, std::string_view name);
  // `left_ns`: what of the phase is left beside its operations.
  void AddRest(std::string_view phase, std::string_view name, int64_t left_ns);

  const Peak peak_flops_;
  const std::string optimizer_;
  std::vector<Row> rows_;
  std::vector<int64_t> step_ns_;
};

}  // namespace gradsync::bench
