#pragma once

#include <memory>

#include "bench/timing/range_sink.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Passes every collective on to `group`, which must outlive the result, as must the sink. Each is a range,
// such as "all_reduce 1048576 bytes", from its issue to the end of the first wait for it: its completion as
// the host sees it. They overlap each other and the phases. A barrier is a nested range.
std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink);

}  // namespace gradsync::bench
