#ifndef GRADSYNC_COMM_WORLD_H_
#define GRADSYNC_COMM_WORLD_H_

#include <functional>
#include <optional>
#include <string>

// Who this process is among the ranks, and where they meet.
namespace gradsync::comm {

struct World {
  int rank = 0;
  int size = 1;
  // Among the ranks on this host.
  int local_rank = 0;
  int local_size = 1;
  // "file:///shared/directory" or "tcp://host:port". Empty only for a world of one.
  std::string rendezvous;
  // "self", "torchrun", "mpirun", "srun"; "none" for a process that nobody launched.
  std::string launcher = "none";
};

// The value of an environment variable, or nullopt.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

// The world that a launcher described in the environment; nullopt without a launcher. Looked for, in this
// order:
//
//   self      GRADSYNC_RANK, GRADSYNC_WORLD_SIZE, GRADSYNC_LOCAL_RANK, GRADSYNC_LOCAL_WORLD_SIZE
//   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
//   mpirun    OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE} (Open MPI), or
//             PMI_{RANK,SIZE} and MPI_LOCAL{RANKID,NRANKS} (MPICH)
//   srun      SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID
//
// The rendezvous is GRADSYNC_RENDEZVOUS if set, else tcp://MASTER_ADDR:(MASTER_PORT + 1), because torchrun's
// own store may listen on MASTER_PORT itself. mpirun and srun set neither: export one of them for their
// ranks.
//
// Throws InvalidInput, naming the variable and its value, for a malformed or contradictory one, and for a
// world of several ranks without a place to meet.
std::optional<World> WorldFromEnvironment();
std::optional<World> WorldFromEnvironment(const EnvironmentLookup& environment);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_WORLD_H_
