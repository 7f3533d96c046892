#include "comm/factory.h"

#include <cstdlib>
#include <string_view>

#include "comm/gloo_process_group.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Maker = std::unique_ptr<ProcessGroup> (*)(const GroupOptions& options, const model::DevicePtr& device);

bool ChecksCollectives() {
  const char* value = std::getenv("GRADSYNC_CHECK_COLLECTIVES");
  const std::string_view text = value == nullptr ? "0" : value;
  Require(text == "0" || text == "1" || text.empty(), "GRADSYNC_CHECK_COLLECTIVES is '", text,
          "', expected 0 or 1");
  return text == "1";
}

std::unique_ptr<ProcessGroup> MakeGloo(const GroupOptions& options, const model::DevicePtr& device) {
  Require(device->is_cpu(), "backend gloo: device is ", device->name(), ", expected cpu");
  return MakeGlooGroup({.world = options.world,
                        .timeout = options.timeout,
                        .num_threads = options.num_threads,
                        .interface_or_address = options.interface_or_address,
                        .check_collectives = ChecksCollectives(),
                        .tuning = {}});
}

struct Backend {
  std::string_view name;
  Maker make;
};
constexpr Backend kBackends[] = {{"gloo", &MakeGloo}};

}  // namespace

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
