#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/process_group.h"

namespace gradsync::comm {

struct LocalOptions {
  std::chrono::milliseconds timeout{60000};
};

// Returns the process groups of `size` ranks that are threads of this process: element r is for the thread of
// rank r. The last rank that reaches a collective runs it for all ranks, and reduces in rank order.
// Work::Wait throws CollectiveError if ranks issue different collectives. Work::Wait also throws
// CollectiveError if, before all ranks have reached the collective, a rank's group is destroyed or the
// timeout passes. Tensors must be on the CPU. MakeLocalGroups throws InvalidInput if `size`, the number of
// ranks, is below 1.
std::vector<std::unique_ptr<ProcessGroup>> MakeLocalGroups(int size, const LocalOptions& options = {});

}  // namespace gradsync::comm
