#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::comm {

class Job;

// Returns the number by which error messages name rank `index` of a world. The number is members[index], the
// rank's number in the whole job, or `index` if `members` is empty.
inline int MemberName(const std::vector<int>& members, int index) {
  return members.empty() ? index : members[static_cast<size_t>(index)];
}

struct World {
  int rank = 0;
  int size = 1;
  // This rank's number, from 0, among the ranks on its host, and the count of these ranks. If local_size is
  // 0, the launcher has not set this count, and local_rank may be wrong; JoinJob corrects both.
  int local_rank = 0;
  int local_size = 1;
  // The place where the ranks find rank 0: "file:///shared/directory" or "tcp://host:port". May be empty only
  // if `size` is 1.
  std::string rendezvous{};
  // The program that started the ranks: "self" (LaunchSelf), "torchrun", "mpirun" or "srun"; "mpirun or srun"
  // if the environment variables do not tell which; "none" for a process without a launcher.
  std::string launcher = "none";
  std::string job_name{};    // the name of the job (see WorldFromEnvironment); may be empty
  std::string job_secret{};  // GRADSYNC_SECRET, which only the job's ranks know; empty if it is not set
  // The value of the environment variable GRADSYNC_HOST, by which the user identifies this host. If the
  // variable is not set, this member is empty, and HostOf makes a text that identifies the host.
  std::string host{};
  // If this world is a part of a larger world (PartOf), the numbers of this world's ranks in the whole job;
  // else empty. Error messages use these numbers.
  std::vector<int> members{};
  // The Job object through which this process is connected to the other ranks. If this pointer is null, each
  // process group of several ranks makes its own Job.
  std::shared_ptr<Job> job{};

  int NameOf(int index) const { return MemberName(members, index); }
  // launched_by_self() returns whether this program started its ranks by LaunchSelf. launched_by_other()
  // returns whether another launcher, such as torchrun, started the ranks. Both functions return false in a
  // process that no launcher has started.
  bool launched_by_self() const { return launcher == "self"; }
  bool launched_by_other() const { return !launched_by_self() && launcher != "none"; }
};

// Returns a text that identifies this process's host: world.host if it is not empty. Otherwise the text is
// HostIdentity() and, if there is an IPv4 route to other hosts, the IPv4 address from which this host sends
// to them. HostIdentity() names this boot of the kernel and this network namespace; without /proc, only the
// host's name. If world.host is empty and /proc is mounted, HostOf returns the same text in all processes of
// one Linux network namespace.
std::string HostOf(const World& world);

// A function that returns the value of an environment variable, or nullopt if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

// Returns the World that the launcher of this process has described in environment variables; nullopt for a
// process without a launcher. world.cc lists the variables of each launcher. The function looks for the
// variables of LaunchSelf first, then for those of torchrun, mpirun (of Open MPI or MPICH) and srun. If only
// variables of Slurm are set, a batch script or a step of one task counts as having no launcher.
//
// A launcher need not set the variables from which local_rank and local_size are read, such as torchrun's
// LOCAL_RANK and LOCAL_WORLD_SIZE. If the variable for local_size is not set, local_size is 0, or 1 in a
// world of one rank. In a world of several ranks, JoinJob finds out which ranks share a host, and sets
// local_rank and local_size accordingly. The job's name is GRADSYNC_JOB if this variable is set and not
// empty, else the launcher's name for the job, if there is one. If torchrun or Slurm has restarted the job,
// the number of restarts is appended to this name. GRADSYNC_SECRET, if set and not empty, is the job's
// secret, and must be one line of 16 to 200 bytes. GRADSYNC_HOST, if set, becomes World::host, the text by
// which the user identifies this host.
//
// The rendezvous is GRADSYNC_RENDEZVOUS if this variable is set and not empty. If GRADSYNC_RENDEZVOUS is
// unset or empty, and mpirun of Open MPI starts all ranks on one host, the rendezvous is a directory
// (file://) inside the one that Open MPI has made for the job. If no rendezvous follows from
// GRADSYNC_RENDEZVOUS or Open MPI, but MASTER_ADDR and MASTER_PORT are set, the rendezvous is
// tcp://MASTER_ADDR:(MASTER_PORT + 1), because torchrun's own store may listen on MASTER_PORT. mpirun and
// srun set neither GRADSYNC_RENDEZVOUS nor MASTER_ADDR. So for several ranks, a user of mpirun or srun must
// export GRADSYNC_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT, to all ranks, unless mpirun of Open MPI starts
// all ranks on one host. With a tcp:// rendezvous, rank 0 listens only on the addresses of the host in the
// URL; 0.0.0.0 means all IPv4 addresses. If the URL's host is a name that means only loopback on rank 0, as a
// host's own name often does, Job's constructor throws CollectiveError on rank 0. Job's constructor accepts a
// name that means only loopback if the name is localhost, or if local_size says that all ranks are on one
// host.
//
// WorldFromEnvironment throws InvalidInput, naming the environment variable, if a number, name or secret that
// it reads is malformed. Also throws InvalidInput if two variables contradict each other, such as a rank that
// is not below the number of ranks. Also throws InvalidInput if the world has several ranks and the variables
// give no rendezvous. If no launcher has started this process, throws InvalidInput if one of torchrun's
// settings PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK and PET_MASTER_ADDR is set.
std::optional<World> WorldFromEnvironment();
std::optional<World> WorldFromEnvironment(const EnvironmentLookup& environment);

}  // namespace gradsync::comm
