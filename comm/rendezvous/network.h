#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// TCP addresses and connections. All functions throw std::runtime_error, one line, unless stated otherwise.
// Functions with a deadline also limit the wait for a name server.
namespace gradsync::comm {

struct HostPort {
  std::string host;
  std::string port;
};

// Parses "host:port", "1.2.3.4:port" and "[::1]:port" with a port from 1 to 65535. `url` is the whole
// address; only the error message uses it. Throws InvalidInput.
HostPort ParseHostPort(const std::string& text, const std::string& url);

// Listens on each address of this host that `address.host` resolves to, and returns the sockets. Port "0"
// selects a free port. If the port is in use, calls `while_taken`, which may throw, and retries, until the
// deadline.
std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken);
int PortOf(const FileDescriptor& socket);

// Connects to the first of the host's addresses that answers. The socket is non-blocking.
FileDescriptor Connect(const HostPort& address, Deadline deadline);
// Switches Nagle's algorithm off, so that short messages are sent at once.
void SendAtOnce(const FileDescriptor& socket);

// Returns the address of this host from which packets to `peer` would be sent. Sends nothing.
std::string OwnAddressTowards(const HostPort& peer, Deadline deadline);
// Returns the address at which other hosts most likely reach this host: the address of its name, or, if that
// is loopback, the address of the default route. Returns loopback if there is no such address.
std::string OwnAddress(Deadline deadline);
// Returns 127.0.0.1, or ::1 if loopback of this host has only that address.
std::string LoopbackAddress(Deadline deadline);
// IsOwnAddress returns whether `host`, a name or address, belongs to this host. IsLoopback returns whether it
// means only loopback.
bool IsOwnAddress(const std::string& host, Deadline deadline);
bool IsLoopback(const std::string& host, Deadline deadline);
// Returns whether a name other than "localhost" resolves to loopback on this host. A host's own name often
// does, but on other hosts resolves to another address.
bool IsLoopbackOnlyHere(const std::string& host, Deadline deadline);

std::string ErrorText(int error);
// Throws errno as std::system_error about `what`. If descriptors ran out, the message tells the limit.
[[noreturn]] void ThrowErrno(const std::string& what);

}  // namespace gradsync::comm
