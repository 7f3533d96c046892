#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/factory.h"
#include "comm/process_group.h"
#include "comm/processes/temporary_directory.h"  // IWYU pragma: export
#include "model/tensor/device.h"

// Functions for tests in which every rank is a thread of one process.
namespace gradsync::comm {

// Calls body(rank) on one thread for each rank, and waits for the threads. Rethrows the exception of the
// lowest rank that threw.
void RunRanks(int size, const std::function<void(int rank)>& body);
// Calls body(rank) on one thread for each rank. Returns the messages of the exceptions; empty for a rank that
// threw none.
std::vector<std::string> ErrorsOfRanks(int size, const std::function<void(int rank)>& body);

// Returns one process group for each rank, on the CPU. `backend` is one of the names that ThreadBackends()
// returns. Unless `backend` is "local", the ranks act as if each host had `ranks_per_host` of them; 0 means
// that all ranks are on one host.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, int size, std::chrono::milliseconds timeout = std::chrono::seconds(60),
    int ranks_per_host = 0);

// Returns devices.size() process groups: element r is for rank r, and uses devices[r]. With `backend`
// "local", all groups use the CPU, whatever `devices` contains.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, const std::vector<model::DevicePtr>& devices,
    std::chrono::milliseconds timeout = std::chrono::seconds(60), int ranks_per_host = 0,
    const BackendOptions& backend_options = {});

// Returns "local" and the names of all backends whose ranks can be threads that use CPU tensors.
std::vector<std::string> ThreadBackends();

// Returns the argument `ranks_per_host` of MakeGroups for tests: 2 for a backend with
// BackendTraits::has_host_groups, else 0.
int RanksPerHost(const std::string& backend);

struct TestedWorld {
  std::string backend;
  int size;
};
// Returns the combinations of a backend and a number of ranks for a parameterised test. "local" and backends
// that work only on one host run with the numbers of ranks in `in_memory`. A backend with
// BackendTraits::has_host_groups runs with 4 ranks, or 2 without a network, but not at all if `others` is
// empty. Other backends run with the numbers of ranks in `others`.
std::vector<TestedWorld> TestedWorlds(const std::vector<int>& in_memory, const std::vector<int>& others);

// Returns the IPv4 address from which this host sends to other hosts; empty without an IPv4 route to them.
std::string OuterAddress();

// Returns "tcp://host:port" with a free port. `host` must be an IPv4 address or a name of this host.
std::string FreeTcpUrl(const std::string& host = "127.0.0.1");

}  // namespace gradsync::comm
