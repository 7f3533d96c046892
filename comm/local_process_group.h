#ifndef GRADSYNC_COMM_LOCAL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_LOCAL_PROCESS_GROUP_H_

#include <chrono>
#include <memory>
#include <vector>

#include "comm/process_group.h"

namespace gradsync::comm {

struct LocalOptions {
  std::chrono::milliseconds timeout{60000};
};

// A world whose ranks are threads of this process: element r is rank r's group, for that thread to use. It is
// the reference for the other backends: a collective runs when its last rank issues it, on that rank's
// thread, and reduces in rank order. Wait blocks until then, and throws CollectiveError if no rank issued
// anything for the timeout, or if ranks issue different collectives. CPU tensors only. Throws InvalidInput
// unless size is positive.
std::vector<std::unique_ptr<ProcessGroup>> MakeLocalGroups(int size, const LocalOptions& options = {});

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_LOCAL_PROCESS_GROUP_H_
