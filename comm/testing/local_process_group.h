#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/process_group.h"

namespace gradsync::comm {

struct LocalOptions {
  std::chrono::milliseconds timeout{60000};
};

// Returns a world whose ranks are threads of this process: element r is the group of rank r, for the thread
// of rank r. These groups are the reference for other backends: the last rank that reaches a collective runs
// it for all ranks, in rank order. The groups fail like other backends, and ranks compare every collective.
// CPU tensors only. Throws InvalidInput unless size is positive.
std::vector<std::unique_ptr<ProcessGroup>> MakeLocalGroups(int size, const LocalOptions& options = {});

}  // namespace gradsync::comm
