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

// Sockets that listen on each address that the host's name stands for, if it is one of this host's; none
// other. Port "0" is any. Waits for the port to be free until the deadline; calls `while_taken` now and then
// meanwhile, which may throw.
std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken);
int PortOf(const FileDescriptor& socket);

// Connects to whichever of the host's addresses answers first. The socket does not block.
FileDescriptor Connect(const HostPort& address, Deadline deadline);
// Lets the system not wait for more before it sends.
void SendAtOnce(const FileDescriptor& socket);

// The address of this host that it sends from to `peer`; nothing is sent.
std::string OwnAddressTowards(const HostPort& peer, Deadline deadline);
// By which other hosts most likely reach this one: what its name stands for, or, where that is loopback, the
// address that leads out of it. Loopback if there is none.
std::string OwnAddress(Deadline deadline);
// Whether a host, by name or number, is an address of this host, or this host's loopback.
bool IsOwnAddress(const std::string& host, Deadline deadline);
bool IsLoopback(const std::string& host, Deadline deadline);
// Whether a name that seems to stand for a host stands for this host's loopback here, and so for another
// address elsewhere: as a host's own name often does.
bool IsLoopbackHereAlone(const std::string& host, Deadline deadline);

// In words.
std::string ErrorText(int error);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_NETWORK_H_
