#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Functions that find TCP addresses, listen at an address, and connect to an address. Functions that cannot
// do their work throw std::runtime_error with a message of one line, unless stated otherwise. PortOf and
// SendAtOnce ignore errors. A function's deadline also limits its wait for a name server.
namespace gradsync::comm {

struct HostPort {
  std::string host;
  std::string port;
};

// Parses "host:port", "1.2.3.4:port" and "[::1]:port" with a port from 1 to 65535. Throws InvalidInput if
// `text` lacks a host or a port in this range, or if a host that contains a colon has no brackets. `url` is
// the whole address (tcp://host:port); only the error message uses it.
HostPort ParseHostPort(const std::string& text, const std::string& url);

// Listens on each address of this host that `address.host` resolves to, and returns the sockets. With port
// "0", the system chooses a free port for each socket separately. If the port is in use, Listen calls
// `while_taken` and tries again, until the deadline. The caller's function `while_taken` may throw to end the
// attempts.
std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken);
int PortOf(const FileDescriptor& socket);

// Tries the addresses of `address.host` one after the other, each for an equal share of the remaining time,
// and returns a connection to the first address that accepts one. The returned socket is non-blocking.
FileDescriptor Connect(const HostPort& address, Deadline deadline);
// Switches Nagle's algorithm off for `socket`, so that short messages are sent without delay.
void SendAtOnce(const FileDescriptor& socket);

// Returns the address of this host from which packets to `peer` would be sent. Sends nothing to `peer`.
std::string OwnAddressTowards(const HostPort& peer, Deadline deadline);
// Returns the first address of `host`, a name or address, that belongs to this host and is not loopback.
// Returns "" if `host` has no such address or cannot be resolved.
std::string OwnAddressOf(const std::string& host, Deadline deadline);
// Returns the address at which other hosts most likely reach this host: OwnAddressOf() of this host's name.
// If OwnAddressOf() returns "", OwnAddress returns the address from which packets leave by the default route.
// If there is no default route either, OwnAddress returns LoopbackAddress().
std::string OwnAddress(Deadline deadline);
// Returns the loopback address of this host: 127.0.0.1, or ::1 if the host has ::1 but not 127.0.0.1.
std::string LoopbackAddress(Deadline deadline);
// IsOwnAddress returns whether at least one address of `host`, a name or address, belongs to this host; it
// returns false if the name cannot be resolved. IsLoopback returns whether all addresses of `host` are
// loopback; it throws std::runtime_error if the name cannot be resolved.
bool IsOwnAddress(const std::string& host, Deadline deadline);
bool IsLoopback(const std::string& host, Deadline deadline);
// Returns whether `host` is a name, not an address and not "localhost", that resolves only to loopback on
// this host. Throws std::runtime_error if the name cannot be resolved. A host's own name often resolves only
// to loopback on the host itself, but to another address on other hosts.
bool IsLoopbackOnlyHere(const std::string& host, Deadline deadline);

std::string ErrorText(int error);
// Throws a std::system_error with the error number errno; its message contains `what`. If this process has no
// free file descriptor (EMFILE), the message also gives the limit (ulimit -n).
[[noreturn]] void ThrowErrno(const std::string& what);

}  // namespace gradsync::comm
