#pragma once

#include <memory>

#include "bench/timing/range_sink.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Returns a process group that passes every collective to `group`, and reports it to `sink` as a range with a
// name such as "all_reduce 1048576 bytes". `group` and `sink` must outlive the result. The range begins when
// the collective is issued. It ends when the first Wait() for the collective returns, or when its Work is
// destroyed. So the ranges of several collectives may overlap. A barrier has ended when Issue returns; its
// range has the name "barrier".
std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink);

}  // namespace gradsync::bench
