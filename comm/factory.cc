#include "comm/factory.h"

#include <cstdlib>
#include <string_view>

#include "comm/gloo_process_group.h"
#include "comm/nccl_process_group.h"
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

bool ChecksCollectives() { return IsSwitchedOn("GRADSYNC_CHECK_COLLECTIVES"); }

std::unique_ptr<ProcessGroup> MakeGloo(const GroupOptions& options, const model::DevicePtr& device) {
  Require(device->is_cpu(), "backend gloo: device is ", device->name(), ", expected cpu");
  return MakeGlooGroup({.world = options.world,
                        .timeout = options.timeout,
                        .num_threads = options.num_threads,
                        .interface_or_address = options.interface_or_address,
                        .check_collectives = ChecksCollectives(),
                        .tuning = {}});
}

std::unique_ptr<ProcessGroup> MakeNccl(const GroupOptions& options, const model::DevicePtr& device) {
  Require(!device->is_cpu(), "backend nccl: device is ", device->name(), ", expected cuda");
  const bool share_gpu = IsSwitchedOn("GRADSYNC_NCCL_SHARE_GPU");
  CheckRanksPerGpu(options.world.local_size, model::CudaDeviceCount(), share_gpu);
  return MakeNcclGroup({.world = options.world,
                        .timeout = options.timeout,
                        .check_collectives = ChecksCollectives(),
                        .share_gpu = share_gpu},
                       device);
}

struct Backend {
  std::string_view name;
  Maker make;
};
constexpr Backend kBackends[] = {{"gloo", &MakeGloo}, {"nccl", &MakeNccl}};

}  // namespace

void CheckRanksPerGpu(int local_size, int num_gpus, bool share_gpu) {
  Require(share_gpu || local_size <= num_gpus, "backend nccl: ", local_size,
          " ranks on this host, which has ", num_gpus, num_gpus == 1 ? " GPU" : " GPUs",
          ", expected at most one rank per GPU (GRADSYNC_NCCL_SHARE_GPU=1 lets ranks share GPUs, to test "
          "function only)");
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

std::unique_ptr<ProcessGroup> MakeProcessGroup(const GroupOptions& options, const model::DevicePtr& device) {
  Require(device != nullptr, "backend ", options.backend, ": no device");
  std::string names;
  for (const Backend& backend : kBackends) {
    if (backend.name == options.backend) return backend.make(options, device);
    names += Join(names.empty() ? "" : ", ", backend.name);
  }
  throw InvalidInput(Join("backend is '", options.backend, "', expected one of: ", names));
}

}  // namespace gradsync::comm
