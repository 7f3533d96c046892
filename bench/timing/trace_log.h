#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/timing/op_recorder.h"
#include "bench/timing/phase_timer.h"
#include "bench/timing/step_wait.h"
#include "comm/queue/recording_process_group.h"

namespace gradsync::bench {

// A trace of one rank, which chrome://tracing and ui.perfetto.dev open. Each rank is a process of the trace.
// The process has a row for the phases of a step, a row for the operations of backward and the broadcast of
// buffers, rows for collectives in flight, and above them the time that each collective waited for its turn.
// Every event has the strategy, the step and the case as arguments.
//
// Phases end at the marks of a step, so a phase includes the waits in it. Each of these waits is an event
// `wait` in the row of the phases, inside of its phase, with the sequence of its collective. The time that
// StepTimes::waits() counts is the whole phase `sync_exposed`, and outside of this phase the events `wait`
// whose argument `counted` is true. On a GPU there are no events `wait`: the times of single waits are not
// known, and the phase `optimizer` includes the waits of the update.
class TraceLog {
 public:
  // `origin` describes the run, such as "tiny, 2 ranks, gloo". `strategies` has the strategies in the order
  // in which the trace shows them.
  TraceLog(int rank, std::string origin, std::vector<std::string> strategies);

  // Identifies a step.
  struct StepName {
    std::string strategy;
    int64_t step = 0;  // index of the step's sample in the record
    int64_t batch_size = 0;
    int64_t seq_len = 0;
  };
  void AddStep(const StepName& name, const StepMarks& marks, std::span<const StepWait> waits,
               const std::vector<TracedOp>& ops,
               std::span<const comm::RecordingProcessGroup::Entry> collectives);

  // Writes the trace event format, "JSON object" variant, with times in us. Throws InvalidInput, naming the
  // path and the system's reason, if the file cannot be written.
  void Write(const std::string& path) const;

 private:
  const int rank_;
  const std::string origin_;
  const std::vector<std::string> strategies_;
  int last_row_;  // the last row; rows are thread ids of the trace
  // Events as JSON; waits for a turn may overlap, events of any other row are nested.
  std::vector<std::string> events_;
};

// Returns the lowest lane for each interval so that intervals of one lane do not overlap. The intervals may
// have any order.
std::vector<int> AssignLanes(std::span<const comm::Interval> intervals);

}  // namespace gradsync::bench
