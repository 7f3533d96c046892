#ifndef GRADSYNC_TOOLS_TIMELINES_TRANSFER_TIMES_H_
#define GRADSYNC_TOOLS_TIMELINES_TRANSFER_TIMES_H_

#include <vector>

#include "tools/tables/table.h"
#include "tools/timelines/trace.h"

// What became of each collective of a step.
namespace gradsync::tools {

// When the last gradient was computed. The step's end in a step without a phase "backward".
double BackwardEndUs(const RankStep& step);

// The three parts of a collective's life. A bucket is a collective.
double QueuedUs(const Transfer& transfer);    // from its issue to its start
double InFlightUs(const Transfer& transfer);  // from its start to its end
// How much of the flight came after the last gradient had been computed: nothing was left to hide it behind.
double ExposedUs(const Transfer& transfer, double backward_end_us);

// How long at least one collective was in flight, and how long after backward.
struct BusyTime {
  double busy_us = 0;
  double exposed_us = 0;
};
BusyTime CommunicationOf(const RankStep& step);

// A row for each (strategy, rank, collective) of the cell that `steps` are of, with the medians over the
// strategy's steps. A collective is known by its place in the order of issue; steps in which another number
// of bytes stands there are another row.
Table TransferTable(const Trace& trace, const std::vector<StepKey>& steps);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TIMELINES_TRANSFER_TIMES_H_
