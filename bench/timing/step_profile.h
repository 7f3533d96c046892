#ifndef GRADSYNC_BENCH_TIMING_STEP_PROFILE_H_
#define GRADSYNC_BENCH_TIMING_STEP_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/op_cost.h"
#include "bench/timing/op_recorder.h"
#include "bench/timing/peaks.h"
#include "bench/timing/phase_timer.h"

namespace gradsync::bench {

// Where the time of one strategy's steps goes, by phase and operation, and how long the device would take for
// it at its peaks.
//
// Time that is no operation's own is in rows of its own: "other" of forward and backward, for what lies
// between operations, and "exposed" for the wait for gradients. No arithmetic and no bytes are counted there,
// so they count as a gap as a whole. An operation that finds in a cache what another left there may be faster
// than its limit.
class StepProfile {
 public:
  // `optimizer`: its name.
  StepProfile(Peaks peaks, std::string optimizer, const OpCost& optimizer_cost);

  // Adds a step: its marks, its forward pass's operations, and the ranges of its tracer.
  void Add(const StepMarks& marks, const std::vector<ComputedOp>& forward,
           const std::vector<TracedOp>& ranges);

  // A table, the largest share first: per step calls, ms, share of the step, GFLOP, MB that move at least, ms
  // at the peaks, and what part of the time that is. Then a line about the whole step. Of at least one step.
  std::string ToString() const;

  // Samples "<phase>.<operation>_ns".
  void WriteTo(Record& record) const;

 private:
  struct Row {
    std::string phase, name;
    int64_t calls = 0;
    OpCost cost = {};  // of all steps
    double limit_ns = 0;
    std::vector<int64_t> own_ns = {};  // by step

    double total_ns() const;
  };

  // The row, made if it is not there, with a sample for the step that is being added.
  Row& RowOf(std::string_view phase, std::string_view name);
  void AddCost(Row& row, const OpCost& cost);
  // `left_ns`: what of the phase is left beside its operations.
  void AddRest(std::string_view phase, std::string_view name, int64_t left_ns);
  std::string Summary(const std::vector<Row>& rows) const;

  const Peaks peaks_;
  const std::string optimizer_;
  const OpCost optimizer_cost_;
  std::vector<Row> rows_;
  std::vector<int64_t> step_ns_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_STEP_PROFILE_H_
