#ifndef GRADSYNC_COMM_MPI_MPI_PROCESS_GROUP_H_
#define GRADSYNC_COMM_MPI_MPI_PROCESS_GROUP_H_

#include <memory>
#include <string>

#include "comm/group_options.h"

namespace gradsync::comm {

// "Open MPI 4.1.4"; empty in a build without it.
std::string MpiVersion();
// What such a build says.
inline constexpr char kWithoutMpi[] =
    "backend mpi: this program was built without Open MPI: BAZELW_EXTRAS=mpi ./bazelw build //bench:all "
    "builds it in";

// Ranks that are processes started by mpirun or srun, over Open MPI's nonblocking collectives. CPU tensors of
// fewer than 2^31 elements only.
//
// A reduction adds in the order that Open MPI chooses by size and number of ranks, and rounds at each step.
// Its result is bitwise the same on all ranks as far as Open MPI's algorithms make it so.
//
// A collective that does not end within the timeout after the one before it, or an error of MPI, fails; so do
// all that are unfinished or come later. MPI does not say which rank is late: the one to name is that which
// has noticed nothing. What was started cannot be cancelled, so this process keeps its tensors, and ends
// without MPI_Finalize. mpirun then ends the others; also when a rank dies, which it names.
//
// MPI belongs to the whole process, which is in it from the first group to its end: ranks cannot be threads,
// and the first groups of all ranks are made at the same time.
//
// As many collectives are in flight at the same time as there are threads in the options. Open MPI moves data
// only while somebody calls it, which a thread of the group's own does.
//
// See GroupMaker. Throws InvalidInput too in a build without Open MPI, CollectiveError if the ranks have not
// been started by a launcher that Open MPI knows.
std::unique_ptr<ProcessGroup> MakeMpiGroup(const GroupOptions& options, const model::DevicePtr& device,
                                           std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_MPI_MPI_PROCESS_GROUP_H_
