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

// Helpers for tests in which every rank is a thread of one process.
namespace gradsync::comm {

// Calls body(rank) on a thread for each rank, waits for all, then rethrows the lowest rank's exception.
void RunRanks(int size, const std::function<void(int rank)>& body);
// Returns the message of the exception that body(rank) threw, for each rank; empty for a rank that returned.
std::vector<std::string> ErrorsOfRanks(int size, const std::function<void(int rank)>& body);

// Returns the process group of each rank, for its thread. `backend` is "local" (MakeLocalGroups) or one of
// BackendNames(). The ranks act as if each host had `ranks_per_host` of them; 0: one host.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, int size, std::chrono::milliseconds timeout = std::chrono::seconds(60),
    int ranks_per_host = 0);

// Like MakeGroups above, with one device for each rank.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, const std::vector<model::DevicePtr>& devices,
    std::chrono::milliseconds timeout = std::chrono::seconds(60), int ranks_per_host = 0,
    const BackendOptions& backend_options = {});

// Returns "local", and every backend whose ranks can be threads that use the CPU. Tests of all backends run
// over this list, so they need no change for a new backend.
std::vector<std::string> ThreadBackends();

// Returns the number of ranks per host in tests of all backends: 2 for a backend with
// ProcessGroup::host_group, so that four ranks are two hosts; else 0, which means one host.
int RanksPerHost(const std::string& backend);

struct TestedWorld {
  std::string backend;
  int size;
};
// Returns the backends and numbers of ranks of a test of ThreadBackends(). A backend within one host gets
// each number of ranks in `in_memory`; other backends, which are slower, get each in `others`. A backend with
// ProcessGroup::host_group gets four ranks on two hosts, or two ranks on one host without a network; it is
// left out if `others` is empty.
std::vector<TestedWorld> TestedWorlds(const std::vector<int>& in_memory, const std::vector<int>& others);

// Returns an address of this host that other hosts can reach; empty if there is none.
std::string OuterAddress();

// Returns "tcp://host:port", with a port that was just free. `host` is an address of this host.
std::string FreeTcpUrl(const std::string& host = "127.0.0.1");

}  // namespace gradsync::comm
