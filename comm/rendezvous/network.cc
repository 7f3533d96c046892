#include "comm/rendezvous/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "comm/processes/host.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr char kLoopback[] = "127.0.0.1", kLoopback6[] = "::1";

struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

struct Lookup {
  int error = 0;
  AddressList list;
};

Lookup Ask(const HostPort& where, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(where.host.c_str(), where.port.empty() ? nullptr : where.port.c_str(), &hints, &list);
  return {error, AddressList(error == 0 ? list : nullptr)};
}

// Returns all addresses of the host. A name server may not answer, and getaddrinfo cannot be interrupted, so
// a separate thread calls it and may outlive this call.
AddressList Resolve(const HostPort& where, Deadline deadline) {
  Lookup lookup = Ask(where, AI_NUMERICHOST);
  if (lookup.error == EAI_NONAME) {
    std::packaged_task<Lookup()> task([where] { return Ask(where, 0); });
    std::future<Lookup> future = task.get_future();
    std::thread(std::move(task)).detach();
    if (future.wait_until(deadline) != std::future_status::ready)
      throw std::runtime_error(Join("cannot resolve host ", where.host, ": the name server does not answer"));
    lookup = future.get();
  }
  if (lookup.error == 0) return std::move(lookup.list);
  throw std::runtime_error(Join("cannot resolve host ", where.host, ": ", gai_strerror(lookup.error)));
}

FileDescriptor NewSocket(const addrinfo& address) {
  return FileDescriptor(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

void SetFlag(const FileDescriptor& socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.get(), level, option, &on, sizeof(on));
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  constexpr uint32_t kLoopbackNet = 127;
  const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
  return address.sa_family == AF_INET && ntohl(ipv4.sin_addr.s_addr) >> 24 == kLoopbackNet;
}

// Returns the address in numbers, such as "10.0.0.1"; empty if it has no such form.
std::string TextOf(const sockaddr& address, socklen_t length) {
  char text[NI_MAXHOST];
  const int error = getnameinfo(&address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

bool IsOwn(const addrinfo& address) {
  const FileDescriptor socket = NewSocket(address);
  return bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0;
}

bool AllAreLoopback(const addrinfo* list) {
  for (; list != nullptr; list = list->ai_next) {
    if (!IsLoopback(*list->ai_addr)) return false;
  }
  return true;
}

// One attempt. Returns no sockets, and sets errno, if no address works, or if an address of this host is in
// use.
std::vector<FileDescriptor> TryListen(const HostPort& where, Deadline deadline) {
  const AddressList list = Resolve(where, deadline);
  std::vector<FileDescriptor> sockets;
  int reason = EADDRNOTAVAIL;
  for (addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    FileDescriptor socket = NewSocket(*address);
    if (!socket.valid()) continue;
    SetFlag(socket, SOL_SOCKET, SO_REUSEADDR);
    if (address->ai_family == AF_INET6) SetFlag(socket, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket.get(), SOMAXCONN) == 0) {
      sockets.push_back(std::move(socket));
    } else {
      reason = errno;
      if (reason != EADDRINUSE) continue;
      sockets.clear();
      break;
    }
  }
  errno = reason;
  return sockets;
}

// Returns the result of a connection attempt: 0, or the error.
int ErrorOf(const FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

std::string ErrorText(int error) { return std::generic_category().message(error); }

void ThrowErrno(const std::string& what) {
  const int error = errno;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  throw std::system_error(error, std::generic_category(),
                          error == EMFILE ? Join("ulimit -n is ", limit.rlim_cur, ": ", what) : what);
}

HostPort ParseHostPort(const std::string& text, const std::string& url) {
  const size_t colon = text.rfind(':');
  HostPort result;
  if (colon != std::string::npos) {
    result.host = text.substr(0, colon);
    result.port = text.substr(colon + 1);
  }
  if (result.host.size() > 2 && result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    result.host.clear();
  }
  int port = 0;
  Require(!result.host.empty() && absl::SimpleAtoi(result.port, &port) && port >= 1 && port <= 65535,
          "rendezvous is '", url, "', expected tcp://host:port with a port from 1 to 65535");
  return result;
}

std::vector<FileDescriptor> Listen(const HostPort& address, Deadline deadline,
                                   const std::function<void()>& while_taken) {
  for (;;) {
    std::vector<FileDescriptor> sockets = TryListen(address, deadline);
    if (!sockets.empty()) return sockets;
    const int error = errno;
    if (Clock::now() >= deadline || error != EADDRINUSE) {
      const bool lacks_loopback = error == EADDRNOTAVAIL && address.host == kLoopback;
      throw std::runtime_error(
          Join("cannot listen on ", address.host, " port ", address.port, ": ", ErrorText(error),
               lacks_loopback ? "; give loopback its address: ip addr add 127.0.0.1/8 dev lo" : ""));
    }
    while_taken();
    std::this_thread::sleep_for(kRetry);
  }
}

int PortOf(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

FileDescriptor Connect(const HostPort& where, Deadline deadline) {
  const AddressList list = Resolve(where, deadline);
  std::ptrdiff_t num_left = 0;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) ++num_left;
  int reason = ETIMEDOUT;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    // Each address has a share of the time, because an address may never answer.
    const Deadline share = Clock::now() + (deadline - Clock::now()) / num_left--;
    FileDescriptor socket = NewSocket(*address);
    if (!socket.valid()) throw std::runtime_error(ErrorText(errno));
    if (connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0) {
      reason = 0;
    } else if (errno == EINPROGRESS) {
      reason = WaitFor(socket, POLLOUT, share) ? ErrorOf(socket) : ETIMEDOUT;
    } else {
      reason = errno;
    }
    if (reason == 0) {
      SendAtOnce(socket);
      return socket;
    }
  }
  throw std::runtime_error(ErrorText(reason));
}

void SendAtOnce(const FileDescriptor& socket) { SetFlag(socket, IPPROTO_TCP, TCP_NODELAY); }

std::string OwnAddressTowards(const HostPort& peer, Deadline deadline) {
  int reason = EHOSTUNREACH;
  const AddressList list = Resolve(peer, deadline);
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    // A connected datagram socket has the address from which it would send.
    const FileDescriptor socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    if (socket.valid() && connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0) {
      if (std::string text = TextOf(reinterpret_cast<sockaddr&>(own), length); !text.empty()) return text;
    }
    reason = errno;
  }
  throw std::runtime_error(Join("no way to host ", peer.host, ": ", ErrorText(reason)));
}

std::string OwnAddressOf(const std::string& host, Deadline deadline) {
  try {
    const AddressList list = Resolve({host, ""}, deadline);
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      if (!IsLoopback(*address->ai_addr) && IsOwn(*address))
        return TextOf(*address->ai_addr, address->ai_addrlen);
    }
  } catch (const std::runtime_error&) {
    // A name that cannot be resolved has no address.
  }
  return "";
}

std::string OwnAddress(Deadline deadline) {
  if (std::string named = OwnAddressOf(HostName(), deadline); !named.empty()) return named;
  try {
    // 192.0.2.1, which is reserved for documentation, represents any other host.
    return OwnAddressTowards({.host = "192.0.2.1", .port = "9"}, deadline);
  } catch (const std::runtime_error&) {
    return LoopbackAddress(deadline);
  }
}

std::string LoopbackAddress(Deadline deadline) {
  return !IsOwnAddress(kLoopback, deadline) && IsOwnAddress(kLoopback6, deadline) ? kLoopback6 : kLoopback;
}

bool IsOwnAddress(const std::string& host, Deadline deadline) {
  try {
    const AddressList list = Resolve({host, ""}, deadline);
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      if (IsOwn(*address)) return true;
    }
  } catch (const std::runtime_error&) {
    // A name that cannot be resolved belongs to no host.
  }
  return false;
}

bool IsLoopback(const std::string& host, Deadline deadline) {
  const AddressList list = Resolve({host, ""}, deadline);
  return AllAreLoopback(list.get());
}

bool IsLoopbackOnlyHere(const std::string& host, Deadline deadline) {
  return Ask({host, ""}, AI_NUMERICHOST).error != 0 && host != "localhost" && IsLoopback(host, deadline);
}

}  // namespace gradsync::comm
