#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/timing/op_recorder.h"
#include "bench/timing/phase_timer.h"
#include "comm/queue/recording_process_group.h"

namespace gradsync::bench {

// What one rank did when, as a trace that chrome://tracing and ui.perfetto.dev open. One process per rank,
// with a row for the phases of a step, a row for the operations of its backward pass and the broadcast of
// buffers, rows for the collectives in flight (as many as were in flight at once), and above them the time
// that each collective waited for its turn. Every event carries the strategy, the step and the case as
// arguments.
class TraceLog {
 public:
  // What was run, for the reader: `origin` such as "tiny, 2 ranks, gloo", and the strategies in the order in
  // which they are to be shown.
  TraceLog(int rank, std::string origin, std::vector<std::string> strategies);

  // Which step it was.
  struct StepName {
    std::string strategy;
    int64_t step = 0;  // the index of the sample in the record
    int64_t batch_size = 0;
    int64_t seq_len = 0;
  };
  void AddStep(const StepName& name, const StepMarks& marks, const std::vector<TracedOp>& ops,
               std::span<const comm::RecordingProcessGroup::Entry> collectives);

  // Writes the trace event format, "JSON object" variant: times in us. Throws InvalidInput, naming the path
  // and the system's reason, if that fails.
  void Write(const std::string& path) const;

 private:
  const int rank_;
  const std::string origin_;
  const std::vector<std::string> strategies_;
  int last_row_;                     // the trace's thread ids are rows
  std::vector<std::string> events_;  // as JSON; those that queue overlap, those in any other row nest
};

// The lowest lane for each interval such that those of one lane do not overlap. The intervals may come in any
// order.
std::vector<int> AssignLanes(std::span<const comm::Interval> intervals);

}  // namespace gradsync::bench
