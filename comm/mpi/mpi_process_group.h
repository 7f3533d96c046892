#pragma once

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// Returns the version of MPI with which this program was built, such as "Open MPI 4.1.4"; empty in a build
// without Open MPI.
std::string MpiVersion();
// The text of the InvalidInput that MakeMpiGroup throws in a build without Open MPI.
inline constexpr char kWithoutMpi[] =
    "backend mpi: this program was built without Open MPI: BAZELW_EXTRAS=mpi ./bazelw build //bench:all "
    "builds it in";

// Makes a process group over Open MPI's nonblocking collectives. Several ranks must be processes that mpirun
// or srun started. Tensors are on the CPU; with several ranks, a collective on a tensor of 2^31 or more
// elements fails.
//
// Open MPI chooses the order of additions by the vector's size and the number of ranks, and rounds after each
// addition. So it depends on Open MPI whether the result of an all-reduce is bitwise equal on all ranks.
//
// A collective fails if MPI reports an error, or if, for the length of options.timeout, none of this group's
// running collectives ends on this rank. Then all unfinished and later collectives of this group also fail on
// this rank. MPI does not report which rank is late; the error names a late rank only if FirstCause
// (comm/queue/first_cause.h) finds one. Collectives that MPI has started cannot be cancelled. If a started
// collective fails, this process keeps the collective's tensors until the process ends, and does not call
// MPI_Finalize. When this process ends without a call of MPI_Finalize, mpirun ends the other ranks. If a rank
// dies, mpirun's error message names it.
//
// MPI can be initialised only once in a process, and stays initialised until the process ends, so ranks
// cannot be threads. MPI_Init waits for all ranks of the job. So when one rank makes its first MPI group of
// several ranks, all other ranks must make their first one too.
//
// Open MPI moves data only inside calls of MPI, so each running collective occupies one of the
// options.num_threads communication threads, which calls MPI_Test until the collective ends.
//
// The comment of GroupMaker (comm/group_options.h) describes the argument `first_cause`, and when
// InvalidInput and CollectiveError are thrown. MakeMpiGroup also throws InvalidInput in a build without Open
// MPI. With several ranks, MakeMpiGroup throws InvalidInput if MPI lacks MPI_THREAD_MULTIPLE. With several
// ranks, MakeMpiGroup also throws InvalidInput if MPI_COMM_WORLD gives this process another rank than the job
// does, or lacks ranks. For example, MPI_COMM_WORLD lacks ranks if neither mpirun nor srun has started them.
std::unique_ptr<ProcessGroup> MakeMpiGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
