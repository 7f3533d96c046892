// For a build without Open MPI.

#include "comm/mpi/mpi_process_group.h"
#include "model/base/error.h"

namespace gradsync::comm {

std::string MpiVersion() { return ""; }

std::unique_ptr<ProcessGroup> MakeMpiGroup(const GroupOptions&, const model::DevicePtr&,
                                           std::shared_ptr<FirstCause>) {
  throw InvalidInput(kWithoutMpi);
}

}  // namespace gradsync::comm
