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

// Parses "host:port", "1.2.3.4:port" and "[::1]:port" with a port from 1 to 65535. Throws InvalidInput, which
// quotes `url`.
HostPort ParseHostPort(const std::string& text, const std::string& url);

// Sockets that listen on each address of this host that `address.host` resolves to. Port "0" selects a free
// port. While the port is taken, retries until the deadline; before each attempt it calls `while_taken`,
// which may throw.
std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken);
int PortOf(const FileDescriptor& socket);

// Connects to the first of the host's addresses that answers. The socket does not block.
FileDescriptor Connect(const HostPort& address, Deadline deadline);
// Switches Nagle's algorithm off.
void SendAtOnce(const FileDescriptor& socket);

// The address from which this host sends to `peer`. Sends nothing.
std::string OwnAddressTowards(const HostPort& peer, Deadline deadline);
// The address at which other hosts most likely reach this one: the address of its name, or, if that is
// loopback, the address of the default route. Loopback if there is none.
std::string OwnAddress(Deadline deadline);
// Whether a host name or address is one of this host's addresses, or only loopback.
bool IsOwnAddress(const std::string& host, Deadline deadline);
bool IsLoopback(const std::string& host, Deadline deadline);
// Whether a name other than "localhost" resolves to loopback on this host, as a host's own name often does.
// On other hosts it resolves to another address.
bool IsLoopbackOnlyHere(const std::string& host, Deadline deadline);

// The message for an errno.
std::string ErrorText(int error);
// Throws errno as std::system_error about `what`. If descriptors ran out, the message has their limit.
[[noreturn]] void ThrowErrno(const std::string& what);

}  // namespace gradsync::comm
