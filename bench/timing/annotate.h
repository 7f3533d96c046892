#pragma once

#include <memory>

#include "bench/timing/range_sink.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Returns a process group that passes each of its collectives on to `group`, and reports it to `sink` as a
// range: a span of time with a name such as "all_reduce 1048576 bytes", which a profiler shows. `group` and
// `sink` must outlive the returned process group. The range of a collective begins when ProcessGroup::Issue
// is called for the collective. It ends when the first Wait() for the collective returns, or, without a
// Wait(), when the collective's Work is destroyed. So the ranges of several collectives may overlap. A
// barrier has the range "barrier", which begins and ends within the call of Issue, because this group's Issue
// waits for the barrier.
std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink);

}  // namespace gradsync::bench
