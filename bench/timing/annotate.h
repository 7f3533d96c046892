#pragma once

#include <memory>

#include "bench/timing/range_sink.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Returns a process group that passes each of its collectives on to `group`, and reports it to `sink` as a
// range: a span of time with a name such as "all_reduce 1048576 bytes", which a profiler shows. A
// collective's range begins when the collective is issued (ProcessGroup::Issue). The range ends when the
// first Wait() for the collective returns, or else when the last copy of the collective's Work is destroyed.
// The range of a barrier ends before Issue returns, because Issue of the returned process group waits for the
// barrier. `group` and `sink` must outlive the returned process group.
std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink);

}  // namespace gradsync::bench
