#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/process_group.h"

namespace gradsync::comm {

struct LocalOptions {
  std::chrono::milliseconds timeout{60000};
};

// A world whose ranks are threads of this process: element r is rank r's group, for its thread. It is the
// reference for the other backends: the last rank that reaches a collective runs it, for all ranks and in
// rank order. It fails like the other backends; ranks compare every collective. CPU tensors only. Throws
// InvalidInput unless size is positive.
std::vector<std::unique_ptr<ProcessGroup>> MakeLocalGroups(int size, const LocalOptions& options = {});

}  // namespace gradsync::comm
