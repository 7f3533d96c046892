#ifndef GRADSYNC_TOOLS_REPORTS_TRACE_H_
#define GRADSYNC_TOOLS_REPORTS_TRACE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

// The traces of //bench:ddp --trace, read back.
namespace gradsync::tools {

// Microseconds on the clock that all ranks of one host share.
struct Span {
  std::string name;
  double begin_us = 0;
  double end_us = 0;

  double duration_us() const { return end_us - begin_us; }
};

struct TracedCollective {
  Span in_flight;        // named after the collective
  double issued_us = 0;  // when the strategy asked for it
  int64_t bytes = 0;
  int64_t number = 0;  // in its step, in the order of issue
  int lane = 0;        // those of one lane do not overlap

  double queued_us() const { return in_flight.begin_us - issued_us; }
  // How much of the flight came after the last gradient had been computed: nothing was left to hide it
  // behind.
  double ExposedUs(double backward_end_us) const {
    return std::max(0.0, in_flight.end_us - std::max(backward_end_us, in_flight.begin_us));
  }
};

// How long at least one collective was in flight, and how long after backward.
struct BusyTime {
  double busy_us = 0;
  double exposed_us = 0;
};

// One step as one rank saw it.
struct RankStep {
  Span step;
  std::vector<Span> phases;  // forward, backward, sync_exposed, optimizer, in this order
  std::vector<Span> ops;     // of backward, in the order in which they ran
  std::vector<TracedCollective> transfers;

  // Null if there is no phase of that name.
  const Span* Phase(const std::string& name) const;
  // When the last gradient was computed. The step's end in a step without a phase "backward".
  double backward_end_us() const;
  BusyTime Communication() const;
};

// Which step it was: a strategy's `index`-th measured one for a batch and a sequence length.
struct StepKey {
  int64_t batch_size = 0;
  int64_t seq_len = 0;
  std::string strategy;
  int64_t index = 0;

  auto operator<=>(const StepKey&) const = default;
};

// All steps, each by rank.
struct Trace {
  std::map<StepKey, std::map<int, RankStep>> steps;
  // In the order of the benchmark's command line; those that it does not say, of their first step.
  std::vector<std::string> strategies;
  std::string origin;  // what was run, such as "tiny, 2 ranks, gloo"; may be empty
};

// The directory, and `traces` right below it if there is one, where the suite puts traced runs.
std::set<std::string> TraceDirectories(const std::string& directory);

// The trace files (*.trace.json) of each run that lie right in the directories, one for each rank, by their
// path without rank.
std::map<std::string, std::vector<std::string>> FindTraces(const std::set<std::string>& directories);

// Reads one file for each rank into one trace. Throws InvalidInput, naming the file, for one that cannot be
// read or that is no trace of a gradsync benchmark.
Trace ReadTraces(const std::vector<std::string>& paths);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_TRACE_H_
