#pragma once

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// Returns a version such as "Open MPI 4.1.4"; empty in a build without Open MPI.
std::string MpiVersion();
// Text of the InvalidInput that a build without Open MPI throws.
inline constexpr char kWithoutMpi[] =
    "backend mpi: this program was built without Open MPI: BAZELW_EXTRAS=mpi ./bazelw build //bench:all "
    "builds it in";

// Makes a process group over Open MPI's nonblocking collectives. Ranks are processes that mpirun or srun
// started. Only CPU tensors of fewer than 2^31 elements are supported.
//
// Open MPI chooses the order of additions by size and number of ranks, and rounds after each addition. The
// result of a reduction is bitwise equal on all ranks only if Open MPI's algorithms guarantee this.
//
// A collective fails if MPI reports an error, or if no collective ends within the timeout. Then all
// unfinished and later collectives also fail. MPI does not report which rank is late. Collectives that were
// started cannot be cancelled, so this process keeps their tensors until it ends, and does not call
// MPI_Finalize. mpirun then ends the other ranks. If a rank dies, mpirun names it.
//
// MPI can be initialised only once in a process, and stays initialised until the process ends. So ranks
// cannot be threads, and all ranks must make their first MPI process group at the same time.
//
// Open MPI moves data only inside calls of MPI, so each collective in flight has a thread that makes calls.
//
// See GroupMaker. Throws InvalidInput also in a build without Open MPI, CollectiveError if no launcher that
// Open MPI knows has started the ranks.
std::unique_ptr<ProcessGroup> MakeMpiGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
