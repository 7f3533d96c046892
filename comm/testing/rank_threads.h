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

// Helpers for tests: a world whose ranks are threads.
namespace gradsync::comm {

// Calls body(rank) on a thread for each rank, waits for all of them, then rethrows the lowest rank's
// exception.
void RunRanks(int size, const std::function<void(int rank)>& body);
// Returns the message of the exception that body(rank) threw, for each rank; empty for a rank that returned.
std::vector<std::string> ErrorsOfRanks(int size, const std::function<void(int rank)>& body);

// Returns one group per rank, for the thread of the rank, of backend "local" or of a backend of the factory.
// Ranks act as if each host had `ranks_per_host` ranks; with 0, as if all ranks were on one host.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, int size, std::chrono::milliseconds timeout = std::chrono::seconds(60),
    int ranks_per_host = 0);

// Returns one group per rank, with a device for each rank.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, const std::vector<model::DevicePtr>& devices,
    std::chrono::milliseconds timeout = std::chrono::seconds(60), int ranks_per_host = 0,
    const BackendOptions& backend_options = {});

// Returns "local", and every backend of the factory whose ranks can be threads, on CPUs. Suites of all
// backends run over this list, so a new backend needs no line in them.
std::vector<std::string> ThreadBackends();

// Returns the number of ranks on each host in suites: two for a backend that has groups within hosts, so that
// four ranks are two hosts; else 0, for one host.
int RanksPerHost(const std::string& backend);

// A backend, and the number of its ranks.
struct TestedWorld {
  std::string backend;
  int size;
};
// Returns worlds of all ThreadBackends. Backends within one host have the sizes `in_memory`, and the others,
// which are slower, the sizes `others`. Unless these are empty, a backend with groups within hosts has two
// hosts, or one if this machine has no network.
std::vector<TestedWorld> TestedWorlds(const std::vector<int>& in_memory, const std::vector<int>& others);

// Returns an address of this host that other hosts can reach; ranks need it to act as several hosts. Empty if
// there is no such address.
std::string OuterAddress();

// Returns "tcp://host:port", with a port that was just free. `host` is an address of this host.
std::string FreeTcpUrl(const std::string& host = "127.0.0.1");

}  // namespace gradsync::comm
