#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// This process's rank, and the rendezvous of the ranks.
namespace gradsync::comm {

class Job;

// The number that messages use for rank `index` of a world with these members. Without members: `index`.
inline int MemberName(const std::vector<int>& members, int index) {
  return members.empty() ? index : members[static_cast<size_t>(index)];
}

struct World {
  int rank = 0;
  int size = 1;
  // Rank and size among the ranks on this host. A size of 0: unknown before JoinJob (comm/rendezvous/job.h).
  int local_rank = 0;
  int local_size = 1;
  // "file:///shared/directory" or "tcp://host:port". Empty only for a world of one.
  std::string rendezvous{};
  // "self", "torchrun", "mpirun", "srun", "mpirun or srun"; "none" for a process without a launcher.
  std::string launcher = "none";
  // The launcher's name for this job, empty if it has none; a secret that only its ranks know, empty if there
  // is none.
  std::string job_name{};
  std::string job_secret{};
  // Identifies the host; empty: the system's identity.
  std::string host{};
  // If this world is a part of a larger one: its ranks' numbers in the larger one, which messages use. Else
  // empty.
  std::vector<int> members{};
  // The job that the ranks have joined. Null: they form a new one for every group.
  std::shared_ptr<Job> job{};

  int NameOf(int index) const { return MemberName(members, index); }
};

// The identity of this process's host: `host`, or the system's identity (comm/processes/host.h) and its
// address towards other hosts, because copies of a running virtual machine have equal system identities.
// Equal for ranks of one host.
std::string HostOf(const World& world);

// The value of an environment variable, or nullopt.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

// The world that a launcher described in the environment; nullopt without a launcher. world.cc lists the
// variables of each launcher. It checks LaunchSelf first, then torchrun, mpirun (of Open MPI or MPICH) and
// srun. A single task of Slurm has no launcher: it may be a shell in which somebody starts this program.
//
// The local rank and size are optional, and JoinJob replaces them; without them local_size is 0. The job's
// name is GRADSYNC_JOB if set, else the launcher's name, followed by the number of restarts of torchrun or
// Slurm. GRADSYNC_SECRET, of 16 bytes or more, is its secret. GRADSYNC_HOST, if set, names the host instead
// of the system.
//
// The rendezvous is GRADSYNC_RENDEZVOUS if set, else tcp://MASTER_ADDR:(MASTER_PORT + 1), because torchrun's
// own store may listen on MASTER_PORT. mpirun and srun set neither: export one of them for their ranks,
// unless mpirun of Open MPI starts all ranks on one host. Rank 0 listens only on the addresses of the given
// host; 0.0.0.0 means all addresses. If the name of the host resolves to loopback on rank 0, as a host's own
// name often does, all ranks must be on that host.
//
// Throws InvalidInput, naming the variable and its value, for a malformed or contradictory one, and for a
// world of several ranks without a rendezvous; also if there are only variables for torchrun (PET_NNODES).
std::optional<World> WorldFromEnvironment();
std::optional<World> WorldFromEnvironment(const EnvironmentLookup& environment);

}  // namespace gradsync::comm
