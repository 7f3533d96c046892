#pragma once

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// Returns "Open MPI 4.1.4"; empty in a build without Open MPI.
std::string MpiVersion();
// The message of a build without Open MPI.
inline constexpr char kWithoutMpi[] =
    "backend mpi: this program was built without Open MPI: BAZELW_EXTRAS=mpi ./bazelw build //bench:all "
    "builds it in";

// Makes a group of ranks that mpirun or srun started as processes, over Open MPI's nonblocking collectives.
// CPU tensors of fewer than 2^31 elements only.
//
// A reduction adds in the order that Open MPI chooses by size and number of ranks, and rounds at each step.
// The result of a reduction is bitwise equal on all ranks only if Open MPI's algorithms guarantee this.
//
// A collective fails if MPI reports an error, or if the timeout passes after the end of the previous
// collective. Then all unfinished and later collectives also fail. MPI does not report which rank is late.
// Collectives that were started cannot be cancelled, so this process keeps the tensors of these collectives,
// and ends without MPI_Finalize. mpirun then ends the other ranks. If a rank dies, mpirun names it.
//
// MPI state belongs to the whole process, from the first group to the end of the process. So ranks cannot be
// threads, and all ranks must make their first group at one time.
//
// Open MPI moves data only during calls. Each collective in flight has a thread that makes these calls.
//
// See GroupMaker. Throws InvalidInput also in a build without Open MPI, CollectiveError if no launcher that
// Open MPI knows has started the ranks.
std::unique_ptr<ProcessGroup> MakeMpiGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
