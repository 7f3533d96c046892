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

// Functions for tests in which every rank is a thread of one process: they start the threads and make process
// groups.
namespace gradsync::comm {

// Calls body(rank) on a thread for each rank, and waits for all threads. If ranks have thrown exceptions,
// rethrows the exception of the lowest such rank.
void RunRanks(int size, const std::function<void(int rank)>& body);
// Returns the message of the exception that body(rank) threw, for each rank; empty for a rank that returned.
std::vector<std::string> ErrorsOfRanks(int size, const std::function<void(int rank)>& body);

// Returns the process groups of `size` ranks on the CPU: element r is for the thread of rank r. `backend` is
// "local" (MakeLocalGroups) or one of BackendNames(). With a backend other than "local", the ranks act as if
// they were on several hosts with `ranks_per_host` ranks each. If `ranks_per_host` is 0, the ranks act as if
// all were on one host.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, int size, std::chrono::milliseconds timeout = std::chrono::seconds(60),
    int ranks_per_host = 0);

// Returns the process groups of devices.size() ranks, of which rank r uses devices[r]. `backend_options` are
// the options of the backend. The backend "local" ignores the devices and `backend_options`.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, const std::vector<model::DevicePtr>& devices,
    std::chrono::milliseconds timeout = std::chrono::seconds(60), int ranks_per_host = 0,
    const BackendOptions& backend_options = {});

// Returns "local" and the names of all backends that can run on CPU tensors with every rank as a thread of
// one process.
std::vector<std::string> ThreadBackends();

// Returns the `ranks_per_host` that tests of strategies pass to MakeGroups: 2 for a backend with
// ProcessGroup::host_group, so that four ranks are on two hosts; else 0, which means one host.
int RanksPerHost(const std::string& backend);

struct TestedWorld {
  std::string backend;
  int size;
};
// Returns the combinations of a backend from ThreadBackends() and a number of ranks with which a
// parameterised test runs. "local" and each backend whose ranks must be on one host get every number of ranks
// in the argument `in_memory`. A backend that can connect several hosts, but has no ProcessGroup::host_group,
// gets every number of ranks in the argument `others`. A backend with ProcessGroup::host_group gets only 4
// ranks (2 if this host has no network), and is left out if `others` is empty.
std::vector<TestedWorld> TestedWorlds(const std::vector<int>& in_memory, const std::vector<int>& others);

// Returns the address from which this host sends to other hosts; empty if there is no network.
std::string OuterAddress();

// Returns "tcp://host:port", with a port that is free when FreeTcpUrl looks for one. `host` must be an
// address of this host.
std::string FreeTcpUrl(const std::string& host = "127.0.0.1");

}  // namespace gradsync::comm
