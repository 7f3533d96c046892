#ifndef GRADSYNC_TOOLS_REPORTS_TIMELINE_H_
#define GRADSYNC_TOOLS_REPORTS_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "tools/reports/figures.h"
#include "tools/reports/trace.h"

// One picture of one step of each strategy: what every rank computed, and what was on its way meanwhile.
namespace gradsync::tools {

// The steps to draw of a cell, one for each strategy that has any there, in the order of the trace: of its
// measured steps the one of median length (a step is as long as its slowest rank).
std::vector<StepKey> ChooseSteps(const Trace& trace, int64_t batch_size, int64_t seq_len);

// The strategies above one another, all on one scale of time from each step's begin. Every rank has a row for
// computation (phases, with the operations of backward marked) and one for communication: a lane for each
// collective in flight at the same time, with its number in the order of issue, and below a line that rises
// with the number of collectives that wait for their turn. What is in flight after the last gradient has been
// computed is drawn dark: it is exposed. At the right are the step's length, the exposed time, and how much
// of the communication was hidden. The title says between which strategies that lies.
Figure TimelineFigure(const Trace& trace, int64_t batch_size, int64_t seq_len);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_TIMELINE_H_
