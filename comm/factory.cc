#include "comm/factory.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_join.h"
#include "comm/gloo/gloo_process_group.h"
#include "comm/hierarchical/hierarchical_process_group.h"
#include "comm/mpi/mpi_process_group.h"
#include "comm/nccl/nccl_process_group.h"
#include "comm/rendezvous/job.h"
#include "comm/shm/shm_process_group.h"
#include "model/base/error.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::comm {
namespace {

bool SharesGpus() {
  const char* value = std::getenv("GRADSYNC_NCCL_SHARE_GPU");
  const std::string_view text = value == nullptr ? "0" : value;
  Require(text == "0" || text == "1" || text.empty(), "GRADSYNC_NCCL_SHARE_GPU is '", text,
          "', expected 0 or 1");
  return text == "1";
}

void CheckShm(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCpu, "backend shm: device is cuda, expected cpu");
  // Before JoinJob this is the launcher's value, which may be wrong.
  Require(world.job == nullptr || world.local_size == world.size, "backend shm: ", world.local_size, " of ",
          world.size, " ranks are on this host, expected all");
}

void CheckHierarchical(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCpu, "backend hierarchical: device is cuda, expected cpu");
  if (world.job != nullptr) RanksByHost(world.job->hosts());
}

void CheckMpi(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCpu, "backend mpi: device is cuda, expected cpu");
  Require(!MpiVersion().empty(), kWithoutMpi);
  Require(world.launcher != "torchrun", "backend mpi: torchrun started the ranks, expected mpirun or srun");
}

void CheckNccl(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCuda, "backend nccl: device is cpu, expected cuda (--device=cuda)");
  Require(!NcclVersion().empty(), kWithoutNccl);
  CheckRanksPerGpu(world, model::CudaDeviceCount(), SharesGpus());
}

std::unique_ptr<ProcessGroup> MakeNccl(const GroupOptions& options, const model::DevicePtr& device,
                                       std::shared_ptr<FirstCause> first_cause) {
  // If each rank claims to be a separate host, NCCL lets them share a GPU, and sends over sockets. NCCL reads
  // this variable when it first looks for its host; a value from outside is not replaced.
  if (SharesGpus()) setenv("NCCL_HOSTID", Join("gradsync-rank-", options.world.rank).c_str(), 0);
  return MakeNcclGroup(options, device, std::move(first_cause));
}

// An option's values; the first is the default.
struct BackendOption {
  std::string_view name;
  std::vector<std::string> values;
};

struct Backend {
  std::string_view name;
  void (*check)(model::Device::Type device, const World& world);  // null if there is nothing to check
  GroupMaker* make;
  BackendTraits traits = {};
  // Options, each of which names a backend of which this backend is made.
  std::vector<BackendOption> options = {};
};

const Backend& Find(const std::string& name);

std::unique_ptr<ProcessGroup> MakeHierarchical(const GroupOptions& options, const model::DevicePtr& device,
                                               std::shared_ptr<FirstCause>) {
  return MakeHierarchicalGroup(options,
                               [&](const GroupOptions& part, const std::shared_ptr<FirstCause>& first_cause) {
                                 return Find(part.backend).make(part, device, first_cause);
                               });
}

const std::vector<Backend>& Backends() {
  static const std::vector<Backend> backends = {
      {"gloo", nullptr, &MakeGlooGroup},
      {"gloo_own", nullptr, &MakeGlooGroup, {.reduces_in_rank_order = false}},
      {"shm",
       &CheckShm,
       &MakeShmGroup,
       {.shares_memory = true, .is_within_host = true, .has_threads = false}},
      {"hierarchical",
       &CheckHierarchical,
       &MakeHierarchical,
       {.has_host_groups = true},
       {{"inner", {"shm", "gloo", "mpi"}}, {"outer", {"gloo", "gloo_own", "mpi"}}}},
      {"mpi", &CheckMpi, &MakeMpiGroup, {.reduces_in_rank_order = false, .needs_mpirun = true}},
      {"nccl",
       &CheckNccl,
       &MakeNccl,
       {.reduces_in_rank_order = false, .has_threads = false, .pytorch_backend = "nccl"}}};
  return backends;
}

const Backend& Find(const std::string& name) {
  std::string names;
  for (const Backend& backend : Backends()) {
    if (backend.name == name) return backend;
    names += Join(names.empty() ? "" : ", ", backend.name);
  }
  throw InvalidInput(Join("backend is '", name, "', expected one of: ", names));
}

// Refuses host_group() for a backend that does not reduce within a host, if there are several hosts.
class MadeGroup : public GroupDecorator {
 public:
  MadeGroup(std::unique_ptr<ProcessGroup> inner, const GroupOptions& options)
      : GroupDecorator(std::move(inner)), options_(options) {}

  ProcessGroup* host_group() override {
    ProcessGroup* const group = GroupDecorator::host_group();
    if (group != nullptr || options_.world.job == nullptr) return group;
    const std::vector<std::string> hosts = HostsOf(options_.world);
    Require(std::ranges::count(hosts, hosts[0]) == std::ssize(hosts), "backend ", options_.backend,
            ": reduces nothing within a host, and not all ranks are on one; expected backend hierarchical");
    return nullptr;
  }

 private:
  const GroupOptions options_;
};

}  // namespace

void CheckRanksPerGpu(const World& world, int num_gpus, bool share_gpu) {
  if (share_gpu || (num_gpus == 1 && world.launched_by_other())) return;
  Require(world.local_size <= num_gpus, "backend nccl: ", world.local_size, " ranks on this host, which has ",
          num_gpus, num_gpus == 1 ? " GPU" : " GPUs",
          ", expected at most one rank per GPU (GRADSYNC_NCCL_SHARE_GPU=1 lets ranks share GPUs, to test "
          "function only)");
}

void CheckBackendOptions(const std::string& backend, const BackendOptions& options) {
  const std::vector<BackendOption>& known = Find(backend).options;
  for (const auto& [name, value] : options) {
    const auto option = std::ranges::find(known, name, &BackendOption::name);
    Require(option != known.end(), "backend ", backend, " has no option '", name, "'");
    Require(std::ranges::count(option->values, value) > 0, "backend ", backend, ": ", name, " is '", value,
            "', expected one of: ", absl::StrJoin(option->values, ", "));
  }
}

void CheckBackend(const std::string& backend, const BackendOptions& options, model::Device::Type device,
                  const World& world) {
  CheckBackendOptions(backend, options);
  if (const auto check = Find(backend).check) check(device, world);
  if (TraitsOf(backend, options).needs_mpirun) CheckMpi(device, world);
}

BackendTraits TraitsOf(const std::string& backend, const BackendOptions& options) {
  const Backend& found = Find(backend);
  BackendTraits traits = found.traits;
  for (const auto& [name, values] : found.options) {
    const auto given = options.find(name);
    const BackendTraits& part = Find(given == options.end() ? values.front() : given->second).traits;
    traits.reduces_in_rank_order &= part.reduces_in_rank_order;
    traits.needs_mpirun |= part.needs_mpirun;
    traits.shares_memory |= part.shares_memory;
  }
  return traits;
}

std::vector<std::pair<std::string, std::string>> BackendLibraries() {
  std::vector<std::pair<std::string, std::string>> libraries;
  if (std::string version = NcclVersion(); !version.empty())
    libraries.emplace_back("nccl", std::move(version));
  if (std::string version = MpiVersion(); !version.empty()) libraries.emplace_back("mpi", std::move(version));
  return libraries;
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Backend& backend : Backends()) names.emplace_back(backend.name);
  return names;
}

std::unique_ptr<ProcessGroup> MakeProcessGroup(const GroupOptions& options, const model::DevicePtr& device) {
  Require(device != nullptr, "backend ", options.backend, ": no device");
  CheckBackend(options.backend, options.backend_options, device->type(), options.world);
  const Backend& backend = Find(options.backend);
  GroupOptions completed = options;
  for (const auto& [name, values] : backend.options)
    completed.backend_options.try_emplace(std::string(name), values.front());
  return std::make_unique<MadeGroup>(backend.make(completed, device, nullptr), options);
}

}  // namespace gradsync::comm
