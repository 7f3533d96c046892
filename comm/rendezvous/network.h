#ifndef GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_
#define GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Addresses and connections of TCP. All functions throw std::runtime_error, one line, unless stated
// otherwise. Those with a deadline do not wait longer for a name server.
namespace gradsync::comm {

struct HostPort {
  std::string host;
  std::string port;
};

// Takes "host:port", "1.2.3.4:port" and "[::1]:port" with a port from 1 to 65535. Throws InvalidInput, which
// quotes `url`.
HostPort ParseHostPort(const std::string& text, const std::string& url);

// Sockets that listen on each address of this host that `address.host` resolves to. Port "0" is any. While
// the port is taken, tries again until the deadline and calls `while_taken`, which may throw, before each
// attempt.
std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken);
int PortOf(const FileDescriptor& socket);

// Connects to the first of the host's addresses that answers. The socket does not block.
FileDescriptor Connect(const HostPort& address, Deadline deadline);
// Switches Nagle's algorithm off.
void SendAtOnce(const FileDescriptor& socket);

// The address that this host sends from when it sends to `peer`. Sends nothing.
std::string OwnAddressTowards(const HostPort& peer, Deadline deadline);
// The address at which other hosts most likely reach this one: what its name resolves to, or, if that is
// loopback, the address of the default route. Loopback if there is none.
std::string OwnAddress(Deadline deadline);
// Whether a host name or address is one of this host's addresses, or only loopback.
bool IsOwnAddress(const std::string& host, Deadline deadline);
bool IsLoopback(const std::string& host, Deadline deadline);
// Whether a name other than "localhost" resolves to loopback here, as a host's own name often does. On other
// hosts it stands for another address.
bool IsLoopbackOnlyHere(const std::string& host, Deadline deadline);

// The message for an errno.
std::string ErrorText(int error);
// Throws what errno says of `what` as std::system_error, with the limit of descriptors if that is the reason.
[[noreturn]] void ThrowErrno(const std::string& what);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_
