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

// The highest speed that a device reached in MeasureFlops, in floating-point operations per second, and a
// text that names the matrix product with this speed.
struct Peak {
  double per_second = 0;
  std::string source;
};

// Measures how fast matrix products of several shapes are, and returns the speed of the fastest, in
// floating-point operations per second. On a CPU, if `dtype` is bf16, also measures products in f32, and
// returns their speed if it is higher. All ranks of a host should call MeasureFlops at the same time, because
// they also share the host's processors in training.
Peak MeasureFlops(const model::DevicePtr& device, model::DType dtype);

// A StepProfile divides the time of one strategy's training steps among operations. It has an entry for each
// kind of operation (such as "linear") of forward and of backward: its time and its number of floating-point
// operations. Forward and backward each have an entry "other", for the rest of their time. The strategy's
// hook OnGradReady runs within the operation of backward that completes a gradient, and its time counts in
// the time of this operation. The time of Strategy::BeginStep counts in forward: in the entry "other" if the
// model has buffers, else in the first operation. The time of the entry "waits" is StepTimes::waits(). An
// entry with the optimizer's name has the time of the update of the weights. The times of operations do not
// include waits(). On a GPU, the times of operations may include waits for collectives that waits() does not
// count, because the times of single waits are not known.
class StepProfile {
 public:
  StepProfile(Peak peak_flops, std::string optimizer)
      : peak_flops_(std::move(peak_flops)), optimizer_(std::move(optimizer)) {}

  // Adds a training step to the profile. `times` has the times of the step; its members forward, backward,
  // sync_wait and optimizer must not be empty. `forward` is what OpRecorder::computed() returned for the
  // step, and `ranges` what OpRecorder::ops() returned.
  void Add(const StepMarks& marks, const StepTimes& times, std::span<const StepWait> waits,
           const std::vector<ComputedOp>& forward, const std::vector<TracedOp>& ranges);

  // Returns a table with a row for each entry of the profile; the entry with the longest time comes first. A
  // row has the entry's phase and operation, its mean calls, ms and GFLOP per step, its percentage of the
  // step's time, and its GFLOP/s. A last line says how long the floating-point operations of a step would
  // take at the highest speed that MeasureFlops measured on the device.
  std::string ToString() const;

  // Writes to `record` the time of each entry of the profile in each step, in ns, as samples
  // "<phase>.<operation>_ns". Only the samples of the entry "waits" have another name, "sync.exposed_ns".
  void WriteTo(Record& record) const;

 private:
  struct Entry {
    std::string phase, name;
    int64_t calls = 0;
    double flops = 0;                  // floating-point operations of all steps
    std::vector<int64_t> own_ns = {};  // time of each step

    double total_ns() const;
  };

  Entry& EntryOf(std::string_view phase, std::string_view name);
  void AddRest(std::string_view phase, std::string_view name, int64_t left_ns);

  const Peak peak_flops_;
  const std::string optimizer_;
  std::vector<Entry> entries_;
  std::vector<int64_t> step_ns_;
};

}  // namespace gradsync::bench
