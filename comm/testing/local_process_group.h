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
// Work::Wait throws CollectiveError if ranks issue different collectives, another rank's group has been
// destroyed, or a rank does not reach the collective within the timeout. Tensors must be on the CPU.
// MakeLocalGroups throws InvalidInput if `size`, the number of ranks, is below 1.
std::vector<std::unique_ptr<ProcessGroup>> MakeLocalGroups(int size, const LocalOptions& options = {});

}  // namespace gradsync::comm
