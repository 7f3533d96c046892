#pragma once

#include <memory>

#include "bench/timing/range_sink.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Returns a group that passes every collective to `group`, and reports it to the sink as a range, such as
// "all_reduce 1048576 bytes". `group` and the sink must outlive the result. A range begins when the
// collective is issued and ends with the end of the first wait for it, which is when the host notices its
// completion. Ranges of collectives overlap each other and the phases. A barrier is a nested range.
std::unique_ptr<comm::ProcessGroup> AnnotateCollectives(comm::ProcessGroup& group, RangeSink& sink);

}  // namespace gradsync::bench
