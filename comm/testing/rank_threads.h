#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/factory.h"
#include "comm/process_group.h"
#include "comm/processes/temporary_directory.h"  // IWYU pragma: export
#include "model/device.h"

// For tests: a world whose ranks are threads.
namespace gradsync::comm {

// Calls body(rank) on a thread for each rank, waits for all of them, then rethrows the lowest rank's
// exception.
void RunRanks(int size, const std::function<void(int rank)>& body);
// The message of the exception that body(rank) threw, for each rank; empty for a rank that returned.
std::vector<std::string> ErrorsOfRanks(int size, const std::function<void(int rank)>& body);

// One group per rank, for this rank's thread: backend "local", or one of the factory's. Ranks pretend to be
// on hosts of `ranks_per_host`; 0: on one host.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, int size, std::chrono::milliseconds timeout = std::chrono::seconds(60),
    int ranks_per_host = 0);

// As above, with a device for each rank.
std::vector<std::unique_ptr<ProcessGroup>> MakeGroups(
    const std::string& backend, const std::vector<model::DevicePtr>& devices,
    std::chrono::milliseconds timeout = std::chrono::seconds(60), int ranks_per_host = 0,
    const BackendOptions& backend_options = {});

// An address of this host that other hosts can reach; ranks need it to pretend to be on several hosts. Empty
// if there is none.
std::string OuterAddress();

// "tcp://host:port", with a port that was free a moment ago. `host`: an address of this host.
std::string FreeTcpUrl(const std::string& host = "127.0.0.1");

}  // namespace gradsync::comm
