#ifndef GRADSYNC_TOOLS_TIMELINE_H_
#define GRADSYNC_TOOLS_TIMELINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace.h"

// One picture of one step of each strategy: what every rank computed, and what was on its way meanwhile.
namespace gradsync::tools {

struct TimelineOptions {
  // Empty: all, in the order of the trace.
  std::vector<std::string> strategies;
  // The cell to draw. Without it the first in the trace.
  std::optional<int64_t> batch_size;
  std::optional<int64_t> seq_len;
};

// The steps to draw, one for each strategy: of its measured steps the one of median length (a step is as long
// as its slowest rank). Throws InvalidInput if the trace has no step of a strategy or cell that the options
// name.
std::vector<StepKey> ChooseSteps(const Trace& trace, const TimelineOptions& options);

// The strategies above one another, all on one scale of time from each step's begin. Every rank has a row for
// computation (phases, with the operations of backward marked) and one for communication (a lane for each
// collective in flight at the same time, as a pale line from when it was asked for). What is in flight after
// the last gradient has been computed is drawn dark: it is exposed.
std::string DrawTimeline(const Trace& trace, const std::vector<StepKey>& steps);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TIMELINE_H_
