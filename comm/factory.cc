#include "comm/factory.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "comm/gloo/gloo_process_group.h"
#include "comm/hierarchical/hierarchical_process_group.h"
#include "comm/mpi/mpi_process_group.h"
#include "comm/nccl/nccl_process_group.h"
#include "comm/queue/checked_process_group.h"
#include "comm/rendezvous/job.h"
#include "comm/shm/shm_process_group.h"
#include "model/cuda_device.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

// Makes a group; with a first cause, one that is a part of a larger one.
using Maker = std::unique_ptr<ProcessGroup> (*)(const GroupOptions& options, const model::DevicePtr& device,
                                                std::shared_ptr<FirstCause> first_cause);

bool IsSwitchedOn(const char* variable) {
  const char* value = std::getenv(variable);
  const std::string_view text = value == nullptr ? "0" : value;
  Require(text == "0" || text == "1" || text.empty(), variable, " is '", text, "', expected 0 or 1");
  return text == "1";
}

bool SharesGpus() { return IsSwitchedOn("GRADSYNC_NCCL_SHARE_GPU"); }

void CheckGloo(model::Device::Type, const World&) {}

void CheckShm(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCpu, "backend shm: device is cuda, expected cpu");
  // Before the ranks have met, that is what the launcher says, which may be wrong.
  Require(world.job == nullptr || world.local_size == world.size, "backend shm: ", world.local_size, " of ",
          world.size, " ranks are on this host, expected all");
}

void CheckHierarchical(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCpu, "backend hierarchical: device is cuda, expected cpu");
  if (world.job != nullptr) RanksByHost(world.job->hosts());
}

void CheckMpi(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCpu, "backend mpi: device is cuda, expected cpu");
  Require(!MpiVersion().empty(), "backend mpi: this program was built without Open MPI");
  Require(world.launcher != "torchrun", "backend mpi: torchrun started the ranks, expected mpirun or srun");
}

void CheckNccl(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCuda, "backend nccl: device is cpu, expected cuda (--device=cuda)");
  Require(!NcclVersion().empty(), "backend nccl: this program was built without NCCL");
  CheckRanksPerGpu(world, model::CudaDeviceCount(), SharesGpus());
}

GlooOptions ForGloo(const GroupOptions& options, const model::DevicePtr& device,
                    std::shared_ptr<FirstCause> first_cause) {
  return {.world = options.world,
          .timeout = options.timeout,
          .num_threads = options.num_threads,
          .interface_or_address = options.interface_or_address,
          .tuning = {},
          .gpu = device->is_cpu() ? nullptr : std::static_pointer_cast<model::CudaDevice>(device),
          .first_cause = std::move(first_cause)};
}

std::unique_ptr<ProcessGroup> MakeGloo(const GroupOptions& options, const model::DevicePtr& device,
                                       std::shared_ptr<FirstCause> first_cause) {
  return MakeGlooGroup(ForGloo(options, device, std::move(first_cause)));
}

std::unique_ptr<ProcessGroup> MakeGlooOwn(const GroupOptions& options, const model::DevicePtr& device,
                                          std::shared_ptr<FirstCause> first_cause) {
  GlooOptions gloo = ForGloo(options, device, std::move(first_cause));
  gloo.own_algorithms = true;
  return MakeGlooGroup(gloo);
}

std::unique_ptr<ProcessGroup> MakeShm(const GroupOptions& options, const model::DevicePtr&,
                                      std::shared_ptr<FirstCause> first_cause) {
  return MakeShmGroup(
      {.world = options.world, .timeout = options.timeout, .first_cause = std::move(first_cause)});
}

std::unique_ptr<ProcessGroup> MakeNccl(const GroupOptions& options, const model::DevicePtr& device,
                                       std::shared_ptr<FirstCause>) {
  return MakeNcclGroup({.world = options.world, .timeout = options.timeout, .share_gpu = SharesGpus()},
                       device);
}

// These two read their options, which stand below.
std::unique_ptr<ProcessGroup> MakeHierarchical(const GroupOptions& options, const model::DevicePtr& device,
                                               std::shared_ptr<FirstCause> first_cause);
std::unique_ptr<ProcessGroup> MakeMpi(const GroupOptions& options, const model::DevicePtr& device,
                                      std::shared_ptr<FirstCause> first_cause);

// An option's values; the first is the default.
struct BackendOption {
  std::string_view name;
  std::vector<std::string> values;
};

struct Backend {
  std::string_view name;
  void (*check)(model::Device::Type device, const World& world);
  Maker make;
  bool reduces_in_rank_order = true;
  std::vector<BackendOption> options = {};
};

const std::vector<Backend>& Backends() {
  static const std::vector<Backend> backends = {
      {"gloo", &CheckGloo, &MakeGloo},
      {"gloo_own", &CheckGloo, &MakeGlooOwn, false},
      {"shm", &CheckShm, &MakeShm},
      {"hierarchical",
       &CheckHierarchical,
       &MakeHierarchical,
       true,
       {{"inner", {"shm", "gloo", "mpi"}}, {"outer", {"gloo", "gloo_own", "mpi"}}}},
      {"mpi", &CheckMpi, &MakeMpi, false, {{"progress", {"thread", "wait"}}}},
      {"nccl", &CheckNccl, &MakeNccl, false}};
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

// The option's value in the options of this backend.
const std::string& ValueOf(const GroupOptions& options, std::string_view name) {
  if (const auto given = options.backend_options.find(name); given != options.backend_options.end())
    return given->second;
  return std::ranges::find(Find(options.backend).options, name, &BackendOption::name)->values.front();
}

std::unique_ptr<ProcessGroup> MakeHierarchical(const GroupOptions& options, const model::DevicePtr& device,
                                               std::shared_ptr<FirstCause>) {
  const auto part_maker = [&](std::string_view option, int num_threads) {
    GroupOptions part = options;
    part.backend = ValueOf(options, option);
    part.backend_options = {};
    part.num_threads = num_threads;
    return [part, device](const World& world, std::chrono::milliseconds timeout,
                          std::shared_ptr<FirstCause> first_cause) mutable {
      part.world = world;
      part.timeout = timeout;
      return Find(part.backend).make(part, device, std::move(first_cause));
    };
  };
  return MakeHierarchicalGroup({.world = options.world,
                                .timeout = options.timeout,
                                .inner = part_maker("inner", 1),
                                .outer = part_maker("outer", options.num_threads)});
}

std::unique_ptr<ProcessGroup> MakeMpi(const GroupOptions& options, const model::DevicePtr&,
                                      std::shared_ptr<FirstCause> first_cause) {
  return MakeMpiGroup({.world = options.world,
                       .timeout = options.timeout,
                       .num_in_flight = options.num_threads,
                       .has_thread = ValueOf(options, "progress") == "thread",
                       .first_cause = std::move(first_cause)});
}

// What the factory made, and makes again of some of the ranks.
class MadeGroup : public GroupDecorator {
 public:
  MadeGroup(std::unique_ptr<ProcessGroup> inner, const GroupOptions& options, model::DevicePtr device)
      : GroupDecorator(std::move(inner)), options_(options), device_(std::move(device)) {}

  std::unique_ptr<ProcessGroup> Split(const std::vector<int>& members) override {
    GroupOptions part = options_;
    part.world = PartOf(options_.world, members);
    return MakeProcessGroup(part, device_);
  }

 private:
  const GroupOptions options_;
  const model::DevicePtr device_;
};

}  // namespace

void CheckRanksPerGpu(const World& world, int num_gpus, bool share_gpu) {
  const bool is_own = world.launcher == "self" || world.launcher == "none";
  if (share_gpu || (num_gpus == 1 && !is_own)) return;
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
  Find(backend).check(device, world);
  if (NeedsMpirun(backend, options)) CheckMpi(device, world);
}

bool ReducesInRankOrder(const std::string& backend, const BackendOptions& options) {
  return Find(backend).reduces_in_rank_order && std::ranges::all_of(options, [](const auto& option) {
           const bool is_backend = option.first == "inner" || option.first == "outer";
           return !is_backend || Find(option.second).reduces_in_rank_order;
         });
}

bool NeedsMpirun(const std::string& backend, const BackendOptions& options) {
  return backend == "mpi" ||
         std::ranges::any_of(options, [](const auto& option) { return option.second == "mpi"; });
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
  // Ranks of shm compare every collective, whatever the environment says.
  const bool is_checked = IsSwitchedOn("GRADSYNC_CHECK_COLLECTIVES") && options.backend != "shm";
  std::unique_ptr<ProcessGroup> group = Find(options.backend).make(options, device, nullptr);
  if (is_checked) group = std::make_unique<CheckedProcessGroup>(std::move(group), device);
  return std::make_unique<MadeGroup>(std::move(group), options, device);
}

}  // namespace gradsync::comm
