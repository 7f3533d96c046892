#include "comm/rendezvous/world.h"

#include <cstdlib>
#include <string_view>

#include "absl/strings/numbers.h"
#include "comm/processes/host.h"
#include "comm/rendezvous/network.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

// The names of one launcher's variables. The variables of local ranks and of the job's name are optional. The
// name may have two parts.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;
  const char* job_part;
  const char* num_restarts;
};

constexpr Launcher kLaunchers[] = {
    {"self", "GRADSYNC_RANK", "GRADSYNC_WORLD_SIZE", "GRADSYNC_LOCAL_RANK", "GRADSYNC_LOCAL_WORLD_SIZE",
     nullptr, nullptr, nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", nullptr,
     "TORCHELASTIC_RESTART_COUNT"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", nullptr, nullptr},
    // MPICH's mpirun, or srun --mpi=pmi2. In a job of Slurm, mpirun may number ranks differently from Slurm.
    {"mpirun or srun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SLURM_JOB_ID",
     "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
    // SLURM_NTASKS is not used: in the shell that salloc starts, it is the number of tasks of the whole job,
    // but the shell's step has one task.
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_JOB_ID",
     "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
};

// Slurm makes every shell of a job task 0: a batch script, which belongs to no step, and the shells that
// salloc and `srun --pty` start, which are steps of one task. A program there starts its ranks itself.
bool IsShellOfSlurm(const EnvironmentLookup& environment, const Launcher& launcher) {
  return environment("SLURM_PROCID").has_value() && std::string_view(launcher.name).ends_with("srun") &&
         environment(launcher.size).value_or("1") == "1";
}

std::string Text(const EnvironmentLookup& environment, const char* name) {
  constexpr size_t kMaxBytes = 200;
  std::string text = name == nullptr ? "" : environment(name).value_or("");
  Require(text.size() <= kMaxBytes && text.find('\n') == std::string::npos, name, " has ", text.size(),
          " bytes, expected one line of at most ", kMaxBytes);
  return text;
}

// Ranks of a restarted job must not connect to ranks of the previous attempt.
std::string JobName(const EnvironmentLookup& environment, const Launcher& launcher) {
  std::string name = Text(environment, "GRADSYNC_JOB");
  if (name.empty()) {
    name = Text(environment, launcher.job);
    const std::string part = Text(environment, launcher.job_part);
    if (name == "none") name.clear();  // torchrun's name for a job without a name
    if (!name.empty() && !part.empty()) name += Join(".", part);
  }
  const std::string restarts = Text(environment, launcher.num_restarts);
  return restarts.empty() || restarts == "0" ? name : Join(name, ".restart", restarts);
}

// Returns the secret. Rank 0 proves to every client that it knows the secret, and the proof would reveal a
// short secret.
std::string Secret(const EnvironmentLookup& environment) {
  constexpr size_t kMinBytes = 16;
  std::string secret = Text(environment, "GRADSYNC_SECRET");
  Require(secret.empty() || secret.size() >= kMinBytes, "GRADSYNC_SECRET has ", secret.size(),
          " bytes, expected at least ", kMinBytes,
          " that nobody can guess, such as those of openssl rand -hex 16");
  return secret;
}

// The value of a variable, a whole number in [minimum, limit).
std::optional<int> Number(const EnvironmentLookup& environment, const char* name, int minimum, int limit) {
  const std::optional<std::string> text = name == nullptr ? std::nullopt : environment(name);
  if (!text.has_value()) return std::nullopt;
  int value = 0;
  Require(absl::SimpleAtoi(*text, &value) && value >= minimum && value < limit, name, " is '", *text,
          "', expected a whole number from ", minimum, " to ", limit - 1);
  return value;
}

constexpr int kMaxSize = 1 << 20;

std::string Rendezvous(const EnvironmentLookup& environment, const World& world) {
  if (auto url = environment("GRADSYNC_RENDEZVOUS"); url.has_value() && !url->empty()) return *url;
  // Open MPI's directory for this job and this host.
  const std::optional<std::string> directory = environment("PMIX_SERVER_TMPDIR");
  if (directory.has_value() && world.local_size == world.size)
    return Join("file://", *directory, "/gradsync");
  const std::optional<std::string> host = environment("MASTER_ADDR");
  const std::optional<int> port = Number(environment, "MASTER_PORT", 1, 65535);
  if (host.has_value() && !host->empty() && port.has_value()) {
    const bool is_ipv6 = host->find(':') != std::string::npos && host->front() != '[';
    return Join("tcp://", is_ipv6 ? "[" : "", *host, is_ipv6 ? "]" : "", ":", *port + 1);
  }
  Require(world.size == 1, "GRADSYNC_RENDEZVOUS is not set: ", world.launcher, " started ", world.size,
          " ranks, which need a place to meet: file:///shared/directory or tcp://host_of_rank_0:port (or set "
          "MASTER_ADDR and MASTER_PORT)");
  return "";
}

}  // namespace

std::string HostOf(const World& world) {
  if (!world.host.empty()) return world.host;
  std::string address;
  try {
    address = OwnAddressTowards({.host = "192.0.2.1", .port = "9"}, Deadline::max());
  } catch (const std::runtime_error&) {
    // Without a network there are no other hosts.
  }
  return Join(HostIdentity(), "/", address);
}

std::optional<World> WorldFromEnvironment(const EnvironmentLookup& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const bool has_rank = environment(launcher.rank).has_value();
    const bool has_size = environment(launcher.size).has_value();
    if (!has_rank && !(has_size && launcher.name == std::string_view("self"))) continue;
    if (IsShellOfSlurm(environment, launcher)) continue;
    Require(has_rank, launcher.size, " is set but ", launcher.rank, " is not");
    Require(has_size, launcher.rank, " is set but ", launcher.size, " is not");

    World world;
    // This program may have started mpirun itself (comm/processes/launch.h).
    world.launcher = environment("GRADSYNC_REPORT").has_value() ? "self" : launcher.name;
    world.size = *Number(environment, launcher.size, 1, kMaxSize);
    world.rank = *Number(environment, launcher.rank, 0, kMaxSize);
    Require(world.rank < world.size, launcher.rank, " is ", world.rank, " but ", launcher.size, " is ",
            world.size);
    world.local_rank = Number(environment, launcher.local_rank, 0, kMaxSize).value_or(world.rank);
    const auto local_size = Number(environment, launcher.local_size, 1, world.size + 1);
    Require(!local_size || world.local_rank < *local_size, launcher.local_rank, " is ", world.local_rank,
            " but ", launcher.local_size, " is ", local_size.value_or(0));
    world.local_size = local_size.value_or(world.size == 1 ? 1 : 0);
    world.rendezvous = Rendezvous(environment, world);
    world.job_name = JobName(environment, launcher);
    world.job_secret = Secret(environment);
    world.host = Text(environment, "GRADSYNC_HOST");
    return world;
  }
  for (const char* const name : {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR"}) {
    Require(!environment(name).has_value(), name,
            " is set but RANK is not: that is for torchrun, which starts "
            "the ranks; run `torchrun --no-python PROGRAM FLAGS`");
  }
  return std::nullopt;
}

std::optional<World> WorldFromEnvironment() {
  return WorldFromEnvironment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace gradsync::comm
