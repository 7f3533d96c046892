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

// A TraceLog collects a trace of one rank's timed training steps: when their phases, operations of backward,
// broadcasts of buffers and collectives began and ended. The function Write writes the trace into a file,
// which the viewers chrome://tracing and ui.perfetto.dev can show. The viewers show a row for the phases of a
// step (forward, backward, ...), a row for the operations of backward and the broadcast of buffers, a row for
// collectives that wait in the queue, and rows for collectives in flight.
//
// A phase in the trace includes the times in which the rank waited for communication. On a CPU, the trace has
// an event `wait` for each wait, inside the phase in which the rank waited. The event's argument `sequence`
// is the number of the collective for which the rank waited. StepTimes::waits(), the waiting time of a step,
// is the length of the whole phase `sync_exposed`, plus the lengths of the events `wait` outside this phase
// whose argument `counted` is true. `counted` is false for waits in Strategy::BeginStep and for the broadcast
// of buffers. For a GPU the trace has no events `wait`, because the times of single waits are not known.
class TraceLog {
 public:
  // `origin` is a text about the run for readers of the trace file, such as "tiny, 2 ranks, gloo".
  // `strategies` are the names of the variants (strategies with options) that the run measures.
  TraceLog(int rank, std::string origin, std::vector<std::string> strategies);

  struct StepName {
    std::string strategy;
    int64_t step = 0;  // index of the step's sample in the record
    int64_t batch_size = 0;
    int64_t seq_len = 0;
  };
  void AddStep(const StepName& name, const StepMarks& marks, std::span<const StepWait> waits,
               const std::vector<TracedOp>& ops,
               std::span<const comm::RecordingProcessGroup::Entry> collectives);

  // Writes the trace to the file `path`, in the "JSON object" variant of Chrome's trace event format, with
  // times in microseconds. Throws InvalidInput, naming the path and the reason, if the file cannot be
  // written.
  void Write(const std::string& path) const;

 private:
  const int rank_;
  const std::string origin_;
  const std::vector<std::string> strategies_;
  int last_row_;  // the last row; rows are thread ids of the trace
  // The events of the trace, as JSON texts. Events that show how long collectives wait in the queue may
  // overlap. Any other two events in the same row of the trace overlap only if one contains the other.
  std::vector<std::string> events_;
};

// Distributes time intervals, which may be given in any order, over lanes 0, 1, ..., so that the intervals of
// a lane do not overlap. The trace shows each lane as a row of collectives in flight. Returns the lane of
// each interval: the lowest lane that is free when the interval begins.
std::vector<int> AssignLanes(std::span<const comm::Interval> intervals);

}  // namespace gradsync::bench
