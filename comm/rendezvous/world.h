#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::comm {

class Job;

// Returns the number by which error messages name rank `index` of a world: members[index] (see
// World::members), or `index` itself if there are no members.
inline int MemberName(const std::vector<int>& members, int index) {
  return members.empty() ? index : members[static_cast<size_t>(index)];
}

struct World {
  int rank = 0;
  int size = 1;
  // Rank and size among the ranks on this host. If local_size is 0, both are unknown until JoinJob.
  int local_rank = 0;
  int local_size = 1;
  // "file:///shared/directory" or "tcp://host:port". Empty only for a world of one.
  std::string rendezvous{};
  // The program that started the ranks: "self" (LaunchSelf), "torchrun", "mpirun" or "srun"; "mpirun or srun"
  // if the variables do not tell which; "none" for a process without a launcher.
  std::string launcher = "none";
  std::string job_name{};    // GRADSYNC_JOB, else the launcher's name for this job; empty if both are missing
  std::string job_secret{};  // GRADSYNC_SECRET, which only the job's ranks know; empty if it is not set
  // The identity of the host; if empty, the system's identity is used.
  std::string host{};
  // If this world is a part of a larger one, its ranks' numbers there, which error messages use; else empty.
  std::vector<int> members{};
  // The job that the ranks have joined. If null, the ranks form a new job for every process group.
  std::shared_ptr<Job> job{};

  int NameOf(int index) const { return MemberName(members, index); }
  // launched_by_self and launched_by_other are both false for a process without a launcher.
  bool launched_by_self() const { return launcher == "self"; }
  bool launched_by_other() const { return !launched_by_self() && launcher != "none"; }
};

// Returns the identity of this process's host: `host`, or the system's identity (comm/processes/host.h) and
// its address towards other hosts, because copies of a running virtual machine have equal system identities.
// The identity is equal for all ranks of one host.
std::string HostOf(const World& world);

// Returns the value of an environment variable, or nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

// Returns the world that a launcher described in the environment; nullopt without a launcher. world.cc lists
// the variables of each launcher. The order of checks is LaunchSelf, torchrun, mpirun (of Open MPI or MPICH)
// and srun. A single task of Slurm has no launcher: it may be a shell in which a user starts this program.
//
// The local rank and size are optional, and JoinJob replaces them; without them local_size is 0. If
// GRADSYNC_JOB is set, it is the job's name; else the launcher's name for the job is used. If torchrun or
// Slurm has restarted the job, the number of restarts is added to either name. GRADSYNC_SECRET, of 16 bytes
// or more, is the job's secret. GRADSYNC_HOST, if set, is the identity of the host.
//
// The rendezvous is GRADSYNC_RENDEZVOUS if set, else tcp://MASTER_ADDR:(MASTER_PORT + 1), because torchrun's
// own store may listen on MASTER_PORT. mpirun and srun set neither variable: export one of them for all
// ranks, unless mpirun of Open MPI starts all ranks on one host. Rank 0 listens only on the addresses of the
// given host; 0.0.0.0 means all addresses. If the name of the host resolves to loopback on rank 0, as a
// host's own name often does, all ranks must be on that host.
//
// Throws InvalidInput, naming the variable and its value, for a malformed or contradictory value, for a world
// of several ranks without a rendezvous, and if the environment has only settings of torchrun (PET_NNODES).
std::optional<World> WorldFromEnvironment();
std::optional<World> WorldFromEnvironment(const EnvironmentLookup& environment);

}  // namespace gradsync::comm
