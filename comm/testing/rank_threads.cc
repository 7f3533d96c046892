#include "comm/testing/rank_threads.h"

#include <exception>
#include <stdexcept>
#include <thread>

#include "comm/rendezvous/network.h"
#include "comm/rendezvous/world.h"
#include "comm/testing/local_process_group.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

constexpr std::string_view kLocal = "local";  // the backend of local_process_group.h

std::vector<std::exception_ptr> Exceptions(int size, const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> exceptions(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        exceptions[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return exceptions;
}

}  // namespace

void RunRanks(int size, const std::function<void(int rank)>& body) {
  for (const std::exception_ptr& exception : Exceptions(size, body)) {
    if (exception != nullptr) std::rethrow_exception(exception);
  }
}

std::vector<std::string> ErrorsOfRanks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::string> errors;
  for (const std::exception_ptr& exception : Exceptions(size, body)) {
    std::string text;
    try {
      if (exception != nullptr) std::rethrow_exception(exception);
    } catch (const std::exception& error) {
      text = error.what();
    }
    errors.push_back(text);
  }
  return errors;
}

std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(const std::string& backend, int size,
                                                      std::chrono::milliseconds timeout, int ranks_per_host) {
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < size; ++rank) devices.push_back(model::CpuDevice());
  return MakeGroups(backend, devices, timeout, ranks_per_host);
}

std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(const std::string& backend,
                                                      const std::vector<model::DevicePtr>& devices,
                                                      std::chrono::milliseconds timeout, int ranks_per_host,
                                                      const BackendOptions& backend_options) {
  const int size = static_cast<int>(devices.size());
  if (backend == kLocal) return MakeLocalGroups(size, {.timeout = timeout});
  const TemporaryDirectory directory;
  std::vector<std::unique_ptr<ProcessGroup>> groups(static_cast<size_t>(size));
  RunRanks(size, [&](int rank) {
    const World world{.rank = rank,
                      .size = size,
                      .local_rank = rank,
                      .local_size = size,
                      .rendezvous = "file://" + directory.path(),
                      .launcher = "self",
                      .host = ranks_per_host == 0 ? "" : Join("host", rank / ranks_per_host)};
    const GroupOptions options{.backend = backend,
                               .backend_options = backend_options,
                               .world = world,
                               .timeout = timeout,
                               .interface_or_address = {}};
    groups[static_cast<size_t>(rank)] = MakeProcessGroup(options, devices[static_cast<size_t>(rank)]);
  });
  return groups;
}

std::vector<std::string> ThreadBackends() {
  std::vector<std::string> backends = {std::string(kLocal)};
  for (const std::string& name : BackendNames()) {
    if (TraitsOf(name).needs_mpirun) continue;
    try {
      CheckBackend(name, {}, model::Device::Type::kCpu, {});
    } catch (const InvalidInput&) {
      continue;
    }
    backends.push_back(name);
  }
  return backends;
}

int RanksPerHost(const std::string& backend) {
  return backend != kLocal && TraitsOf(backend).has_host_groups ? 2 : 0;
}

std::vector<TestedWorld> TestedWorlds(const std::vector<int>& in_memory, const std::vector<int>& others) {
  std::vector<TestedWorld> worlds;
  for (const std::string& backend : ThreadBackends()) {
    const bool is_in_memory = backend == kLocal || TraitsOf(backend).is_within_host;
    if (RanksPerHost(backend) > 0) {
      if (!others.empty()) worlds.push_back({backend, OuterAddress().empty() ? 2 : 4});
      continue;
    }
    for (const int size : is_in_memory ? in_memory : others) worlds.push_back({backend, size});
  }
  return worlds;
}

std::string OuterAddress() {
  try {
    return OwnAddressTowards({.host = "192.0.2.1", .port = "9"}, std::chrono::steady_clock::now());
  } catch (const std::runtime_error&) {
    return "";
  }
}

std::string FreeTcpUrl(const std::string& host) {
  const auto listeners = Listen({.host = host, .port = "0"}, std::chrono::steady_clock::now(), [] {});
  return Join("tcp://", host, ":", PortOf(listeners[0]));
}

}  // namespace gradsync::comm
