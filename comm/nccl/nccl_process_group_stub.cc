// For a build without the CUDA toolkit or without NCCL in it.

#include "comm/nccl/nccl_process_group.h"
#include "model/base/error.h"

namespace gradsync::comm {

std::string NcclVersion() { return ""; }

std::unique_ptr<ProcessGroup> MakeNcclGroup(const GroupOptions&, const model::DevicePtr&,
                                            std::shared_ptr<FirstCause>) {
  throw InvalidInput(kWithoutNccl);
}

}  // namespace gradsync::comm
