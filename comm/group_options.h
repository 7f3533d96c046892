#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
#include "model/device.h"

namespace gradsync::comm {

// Options of a backend, by name.
using BackendOptions = std::map<std::string, std::string, std::less<>>;

struct GroupOptions {
  std::string backend = "gloo";
  BackendOptions backend_options{};
  World world;
  // How long to wait for a peer that makes no progress, at the rendezvous and in any collective.
  std::chrono::milliseconds timeout{60000};
  // Number of communication threads: this many collectives can progress at one time.
  int num_threads = 2;
  // A network interface ("eth0") or an address of this host. Empty: loopback if all ranks are on one host;
  // else the network of a tcp:// rendezvous, or for file:// the address of this host's name.
  std::string interface_or_address{};
};

class FirstCause;  // comm/queue/first_cause.h

// Makes a group of one backend. `first_cause`: the FirstCause of the larger group that this group is a part
// of; null: the group makes its own. Returns when all ranks are connected. Throws InvalidInput for bad
// options or a device that the backend does not serve, CollectiveError if ranks are missing.
using GroupMaker = std::unique_ptr<ProcessGroup>(const GroupOptions& options, const model::DevicePtr& device,
                                                 std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
