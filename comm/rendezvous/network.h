#ifndef GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_
#define GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Addresses and connections of TCP. All functions throw std::runtime_error, one line, unless stated
// otherwise.
namespace gradsync::comm {

using Deadline = std::chrono::steady_clock::time_point;

struct HostPort {
  std::string host;
  std::string port;
};

// Takes "host:port", "1.2.3.4:port" and "[::1]:port" with a port from 1 to 65535. Port 0, of which the other
// ranks would never learn, is none. Throws InvalidInput, which quotes `url`.
HostPort ParseHostPort(const std::string& text, const std::string& url);

// Sockets that listen where `address` says: on each address that the host's name stands for, if this host has
// it. A name other than localhost that stands for loopback alone here, as a host's own often does, listens
// everywhere, because elsewhere it stands for something else. Port "0" is any. Waits for the port to be free
// until the deadline; calls `while_taken` now and then meanwhile, which may throw.
std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken);
int PortOf(const FileDescriptor& socket);

// Connects to any of the addresses: to all at once, so that one which never answers keeps nobody from
// another. Tries again until the deadline; then throws what the last one said. Sockets do not block.
FileDescriptor ConnectToAny(const std::vector<HostPort>& addresses, Deadline deadline);

// Waits until the socket is ready for `events` of poll(2). False at the deadline.
bool WaitFor(const FileDescriptor& socket, short events, Deadline deadline);

// The address of this host that it sends from to `peer`; nothing is sent.
std::string OwnAddressTowards(const HostPort& peer);
// Whether a host, by name or number, is an address of this host, or this host's loopback.
bool IsOwnAddress(const std::string& host);
bool IsLoopback(const std::string& host);

// What tells this host from others, as far as loopback reaches: its boot and its network namespace. In one
// word.
std::string HostIdentity();

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_
