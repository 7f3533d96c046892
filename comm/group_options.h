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

// Options of a backend, by name.
using BackendOptions = std::map<std::string, std::string, std::less<>>;

struct GroupOptions {
  std::string backend = "gloo";
  BackendOptions backend_options{};
  World world;
  // Maximum time without progress of a peer, at the rendezvous and in any collective.
  std::chrono::milliseconds timeout{60000};
  // Number of communication threads, which is the number of collectives that can progress concurrently.
  int num_threads = 2;
  // A network interface ("eth0") or an address of this host. If empty, the group uses loopback if all ranks
  // are on one host; else the network of a tcp:// rendezvous, or for file:// the address of this host's name.
  std::string interface_or_address{};
};

class FirstCause;  // comm/queue/first_cause.h

// Makes a group of one backend. `first_cause` is the FirstCause of the larger group that contains this group;
// if null, the group makes its own FirstCause. Returns when all ranks are connected. Throws InvalidInput for
// bad options or a device that the backend does not support, CollectiveError if ranks are missing.
using GroupMaker = std::unique_ptr<ProcessGroup>(const GroupOptions& options, const model::DevicePtr& device,
                                                 std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
