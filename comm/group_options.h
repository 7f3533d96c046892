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

// Options of a backend: the value of each option, such as "shm", by the option's name, such as "inner".
using BackendOptions = std::map<std::string, std::string, std::less<>>;

struct GroupOptions {
  std::string backend = "gloo";
  BackendOptions backend_options{};
  World world;
  // `timeout` limits the time for which a rank waits for another rank, while the ranks connect and in a
  // collective. The comment of CollectiveError says which time of a collective each backend limits. If each
  // of several hosts has several ranks, backend hierarchical passes twice `timeout` to the backend that
  // connects the hosts.
  std::chrono::milliseconds timeout{60000};
  // `num_threads` is the number of communication threads; each runs one collective at a time. Backends shm
  // and nccl do not use num_threads; in backend hierarchical, only the outer backend uses it.
  int num_threads = 2;
  // `interface_or_address` is a network interface ("eth0") or an address of this host, for gloo's connections
  // to other ranks. Backends shm, mpi and nccl do not use interface_or_address. If interface_or_address is
  // empty and all ranks are on one host, gloo uses loopback. If interface_or_address is empty and ranks are
  // on several hosts, gloo's choice depends on World::rendezvous. With a rendezvous of the form tcp://, gloo
  // uses the address from which this host sends packets to the rendezvous. If that is loopback, gloo uses the
  // address from which this host sends packets to one of the job's other hosts. If interface_or_address is
  // empty, ranks are on several hosts, and the rendezvous is file://, gloo uses the address that OwnAddress()
  // returns.
  std::string interface_or_address{};
};

class FirstCause;  // comm/queue/first_cause.h

// The type of the functions that make process groups; each backend has one such function. The argument
// `first_cause` is an object that, after a failure, finds the rank that failed first. If `first_cause` is
// null, the function itself makes a FirstCause if its backend needs one. If backend hierarchical makes both
// an inner and an outer group, it gives one FirstCause to both. A GroupMaker function returns when all ranks
// of the new process group are connected. A GroupMaker function throws InvalidInput for bad options, and
// CollectiveError if ranks are missing or cannot connect. Of these functions, only MakeNcclGroup checks that
// its backend supports the device; MakeProcessGroup makes this check before it calls a GroupMaker function.
using GroupMaker = std::unique_ptr<ProcessGroup>(const GroupOptions& options, const model::DevicePtr& device,
                                                 std::shared_ptr<FirstCause> first_cause);

}  // namespace gradsync::comm
