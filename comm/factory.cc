#include "comm/factory.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "comm/gloo/gloo_process_group.h"
#include "comm/hierarchical/hierarchical_process_group.h"
#include "comm/nccl/nccl_process_group.h"
#include "comm/queue/checked_process_group.h"
#include "comm/rendezvous/job.h"
#include "comm/shm/shm_process_group.h"
#include "model/cuda_device.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Maker = std::unique_ptr<ProcessGroup> (*)(const GroupOptions& options, const model::DevicePtr& device);

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

void CheckNccl(model::Device::Type device, const World& world) {
  Require(device == model::Device::Type::kCuda, "backend nccl: device is cpu, expected cuda");
  Require(!NcclVersion().empty(), "backend nccl: this program was built without NCCL");
  CheckRanksPerGpu(world, model::CudaDeviceCount(), SharesGpus());
}

GlooOptions ForGloo(const GroupOptions& options, const model::DevicePtr& device) {
  return {.world = options.world,
          .timeout = options.timeout,
          .num_threads = options.num_threads,
          .interface_or_address = options.interface_or_address,
          .tuning = {},
          .gpu = device->is_cpu() ? nullptr : std::static_pointer_cast<model::CudaDevice>(device)};
}

std::unique_ptr<ProcessGroup> MakeGloo(const GroupOptions& options, const model::DevicePtr& device) {
  return MakeGlooGroup(ForGloo(options, device));
}

std::unique_ptr<ProcessGroup> MakeGlooOwn(const GroupOptions& options, const model::DevicePtr& device) {
  GlooOptions gloo = ForGloo(options, device);
  gloo.own_algorithms = true;
  return MakeGlooGroup(gloo);
}

std::unique_ptr<ProcessGroup> MakeHierarchical(const GroupOptions& options, const model::DevicePtr& device) {
  return MakeHierarchicalGroup(ForGloo(options, device));
}

std::unique_ptr<ProcessGroup> MakeShm(const GroupOptions& options, const model::DevicePtr&) {
  return MakeShmGroup({.world = options.world, .timeout = options.timeout});
}

std::unique_ptr<ProcessGroup> MakeNccl(const GroupOptions& options, const model::DevicePtr& device) {
  return MakeNcclGroup({.world = options.world, .timeout = options.timeout, .share_gpu = SharesGpus()},
                       device);
}

struct Backend {
  std::string_view name;
  void (*check)(model::Device::Type device, const World& world);
  Maker make;
};
constexpr Backend kBackends[] = {{"gloo", &CheckGloo, &MakeGloo},
                                 {"gloo_own", &CheckGloo, &MakeGlooOwn},
                                 {"shm", &CheckShm, &MakeShm},
                                 {"hierarchical", &CheckHierarchical, &MakeHierarchical},
                                 {"nccl", &CheckNccl, &MakeNccl}};

const Backend& Find(const std::string& name) {
  std::string names;
  for (const Backend& backend : kBackends) {
    if (backend.name == name) return backend;
    names += Join(names.empty() ? "" : ", ", backend.name);
  }
  throw InvalidInput(Join("backend is '", name, "', expected one of: ", names));
}

}  // namespace

void CheckRanksPerGpu(const World& world, int num_gpus, bool share_gpu) {
  const bool is_own = world.launcher == "self" || world.launcher == "none";
  if (share_gpu || (num_gpus == 1 && !is_own)) return;
  Require(world.local_size <= num_gpus, "backend nccl: ", world.local_size, " ranks on this host, which has ",
          num_gpus, num_gpus == 1 ? " GPU" : " GPUs",
          ", expected at most one rank per GPU (GRADSYNC_NCCL_SHARE_GPU=1 lets ranks share GPUs, to test "
          "function only)");
}

void CheckBackend(const std::string& backend, model::Device::Type device, const World& world) {
  Find(backend).check(device, world);
}

std::vector<std::pair<std::string, std::string>> BackendLibraries() {
  std::vector<std::pair<std::string, std::string>> libraries;
  if (std::string version = NcclVersion(); !version.empty())
    libraries.emplace_back("nccl", std::move(version));
  return libraries;
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

std::unique_ptr<ProcessGroup> MakeProcessGroup(const GroupOptions& options, const model::DevicePtr& device) {
  Require(device != nullptr, "backend ", options.backend, ": no device");
  const Backend& backend = Find(options.backend);
  backend.check(device->type(), options.world);
  // Ranks of shm compare every collective, whatever the environment says.
  const bool is_checked = IsSwitchedOn("GRADSYNC_CHECK_COLLECTIVES") && options.backend != "shm";
  std::unique_ptr<ProcessGroup> group = backend.make(options, device);
  if (!is_checked) return group;
  return std::make_unique<CheckedProcessGroup>(std::move(group), device);
}

}  // namespace gradsync::comm
