#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
#include "model/tensor/device.h"

namespace gradsync::comm {

// Options of a backend: values by the options' names.
using BackendOptions = std::map<std::string, std::string, std::less<>>;

struct GroupOptions {
  std::string backend = "gloo";
  BackendOptions backend_options{};
  World world;
  // Longest wait for a rank that makes no progress, while ranks connect and in collectives.
  std::chrono::milliseconds timeout{60000};
  // Number of communication threads, which is the number of collectives that can progress concurrently.
  int num_threads = 2;
  // A network interface ("eth0") or an address of this host, for connections to other ranks. If empty, the
  // backend chooses: loopback if all ranks are on one host; else the network over which this host reaches a
  // tcp:// rendezvous, or, with a file:// rendezvous, the address to which this host's name resolves.
  std::string interface_or_address{};
};

class FirstCause;  // comm/queue/first_cause.h

// Type of the function that makes a process group of one backend. Its argument `first_cause` is an object
// that finds the rank that failed first. For a group inside a larger group (backend hierarchical),
// `first_cause` is that of the larger group; for other groups it is null, and the function makes a
// FirstCause. The function returns when all ranks are connected. It throws InvalidInput for bad options or a
// device that the backend does not support, and CollectiveError if ranks are missing.
using GroupMaker = std::unique_ptr<ProcessGroup>(const GroupOptions& options, const model::DevicePtr& device,
                                                 std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
