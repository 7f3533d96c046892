#include "comm/tcp_store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kSet = 's';
constexpr char kGet = 'g';
constexpr char kRemove = 'r';
constexpr char kKeys = 'k';
constexpr size_t kRequestHeaderBytes = 9;
constexpr size_t kAnswerHeaderBytes = 5;
// Far above any address or nonce: whoever sends more is not a rank.
constexpr uint32_t kMaxBytes = 1 << 20;
constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr auto kFarewell = std::chrono::seconds(1);

std::string ErrorText(int error) { return std::generic_category().message(error); }

void AppendLength(std::string& text, size_t length) {
  const uint32_t value = htonl(static_cast<uint32_t>(length));
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t ReadLength(const char* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return ntohl(value);
}

// Waits until the socket is ready for `events`. False at the deadline.
bool WaitFor(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poll_fd{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

void SendAll(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EINTR && (errno != EAGAIN || !WaitFor(fd, POLLOUT, deadline))) {
      throw std::runtime_error("lost the connection to rank 0: " + ErrorText(errno));
    }
  }
}

std::string ReceiveExactly(int fd, size_t length, Deadline deadline) {
  std::string bytes(length, '\0');
  for (size_t done = 0; done < length;) {
    const ssize_t received = recv(fd, bytes.data() + done, length - done, 0);
    if (received > 0) {
      done += static_cast<size_t>(received);
    } else if (received == 0) {
      throw std::runtime_error("rank 0 closed the connection");
    } else if (errno != EINTR && (errno != EAGAIN || !WaitFor(fd, POLLIN, deadline))) {
      throw std::runtime_error("lost the connection to rank 0: " + ErrorText(errno));
    }
  }
  return bytes;
}

struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

AddressList Resolve(const char* host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host, port.c_str(), &hints, &list);
  if (error != 0) throw std::runtime_error(Join("cannot resolve host ", host, ": ", gai_strerror(error)));
  return AddressList(list);
}

Socket NewSocket(const addrinfo& address) {
  return Socket(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

void SetFlag(int fd, int level, int option) {
  const int on = 1;
  setsockopt(fd, level, option, &on, sizeof(on));
}

// Whether the kernel connected a socket to itself, which happens while nobody listens on a port that it also
// hands out to clients.
bool IsConnectedToItself(int fd) {
  sockaddr_storage self{};
  sockaddr_storage peer{};
  socklen_t self_length = sizeof(self);
  socklen_t peer_length = sizeof(peer);
  getsockname(fd, reinterpret_cast<sockaddr*>(&self), &self_length);
  getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length);
  return self_length == peer_length && std::memcmp(&self, &peer, self_length) == 0;
}

// One attempt. An invalid socket and errno if nobody answers.
Socket TryConnect(const addrinfo& address, Deadline deadline) {
  Socket socket = NewSocket(address);
  if (!socket.valid()) return socket;
  const bool connected = connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0;
  if (!connected && (errno != EINPROGRESS || !WaitFor(socket.fd(), POLLOUT, deadline))) return Socket();
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0 && IsConnectedToItself(socket.fd())) error = ECONNREFUSED;
  if (error != 0) {
    errno = error;
    return Socket();
  }
  return socket;
}

// One attempt to listen on all interfaces, on IPv6 for both kinds of address if this host has it.
Socket TryListen(const std::string& port) {
  const AddressList list = Resolve(nullptr, port, AI_PASSIVE);
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      if (address->ai_family != family) continue;
      Socket socket = NewSocket(*address);
      if (!socket.valid()) continue;
      SetFlag(socket.fd(), SOL_SOCKET, SO_REUSEADDR);
      const int off = 0;
      if (family == AF_INET6) setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
      if (bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
          listen(socket.fd(), SOMAXCONN) == 0) {
        return socket;
      }
      if (errno == EADDRINUSE) return Socket();
    }
  }
  return Socket();
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

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
  int port = -1;
  const char* end = result.port.data() + result.port.size();
  const auto [parsed, error] = std::from_chars(result.port.data(), end, port);
  Require(!result.host.empty() && error == std::errc() && parsed == end && port >= 1 && port <= 65535,
          "rendezvous is '", url, "', expected tcp://host:port");
  return result;
}

std::string OwnAddressTowards(const HostPort& peer) {
  int reason = EHOSTUNREACH;
  const AddressList list = Resolve(peer.host.c_str(), peer.port, 0);
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    // Connected, a datagram socket has the address that it would send from.
    const Socket socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    char text[NI_MAXHOST];
    if (socket.valid() && connect(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      return text;
    }
    reason = errno;
  }
  throw std::runtime_error(Join("no way to host ", peer.host, ": ", ErrorText(reason)));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

struct TcpStoreServer::Connection {
  Socket socket;
  std::string received;
  bool open = true;
};

TcpStoreServer::TcpStoreServer(const HostPort& address, Deadline deadline) {
  listener_ = TryListen(address.port);
  while (!listener_.valid()) {
    const int error = errno;
    if (Clock::now() >= deadline) {
      throw std::runtime_error(Join("cannot listen on port ", address.port, ": ", ErrorText(error)));
    }
    std::this_thread::sleep_for(kRetry);
    listener_ = TryListen(address.port);
  }
  port_ = PortOf(listener_.fd());
  thread_ = std::thread([this] { Serve(); });
}

TcpStoreServer::~TcpStoreServer() {
  stopping_ = true;
  thread_.join();
}

void TcpStoreServer::Serve() {
  std::vector<Connection> connections;
  Deadline end = Deadline::max();
  while (Clock::now() < end) {
    if (stopping_ && end == Deadline::max()) end = Clock::now() + kFarewell;
    if (stopping_ && connections.empty()) return;
    std::vector<pollfd> polled = {{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections) {
      polled.push_back({.fd = connection.socket.fd(), .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), 10);
    for (size_t i = 0; i < connections.size(); ++i) {
      if (polled[i + 1].revents != 0) connections[i].open = Handle(connections[i]);
    }
    std::erase_if(connections, [](const Connection& connection) { return !connection.open; });
    if (polled[0].revents != 0) {
      Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) continue;
      SetFlag(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
      connections.push_back({.socket = std::move(socket), .received = {}});
    }
  }
}

bool TcpStoreServer::Handle(Connection& connection) {
  std::array<char, 4096> bytes;
  const ssize_t count = recv(connection.socket.fd(), bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  std::string& received = connection.received;
  received.append(bytes.data(), static_cast<size_t>(count));
  while (received.size() >= kRequestHeaderBytes) {
    const uint32_t key_bytes = ReadLength(received.data() + 1);
    const uint32_t value_bytes = ReadLength(received.data() + 5);
    if (key_bytes > kMaxBytes || value_bytes > kMaxBytes) return false;
    const size_t request_bytes = kRequestHeaderBytes + key_bytes + value_bytes;
    if (received.size() < request_bytes) break;
    const std::string answer = Answer(received[0], received.substr(kRequestHeaderBytes, key_bytes),
                                      received.substr(kRequestHeaderBytes + key_bytes, value_bytes));
    received.erase(0, request_bytes);
    // A rank asks one thing at a time, so the answer fits into the socket's buffer unless it does not read.
    if (send(connection.socket.fd(), answer.data(), answer.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(answer.size())) {
      return false;
    }
  }
  return true;
}

std::string TcpStoreServer::Answer(char operation, const std::string& key, const std::string& value) {
  std::optional<std::string> result;
  if (operation == kSet) {
    Set(key, value);
  } else if (operation == kGet) {
    result = Get(key);
  } else if (operation == kRemove) {
    Remove(key);
  } else if (operation == kKeys) {
    result.emplace();
    for (const std::string& found : Keys(key)) *result += found + '\n';
  }
  std::string answer(1, result.has_value() ? '\1' : '\0');
  AppendLength(answer, result.has_value() ? result->size() : 0);
  return answer + result.value_or("");
}

TcpStoreClient::TcpStoreClient(const HostPort& address, Deadline deadline) : deadline_(deadline + kFarewell) {
  for (;;) {
    std::string reason;
    try {
      const AddressList list = Resolve(address.host.c_str(), address.port, 0);
      for (const addrinfo* candidate = list.get(); candidate != nullptr; candidate = candidate->ai_next) {
        socket_ = TryConnect(*candidate, deadline);
        if (socket_.valid()) {
          SetFlag(socket_.fd(), IPPROTO_TCP, TCP_NODELAY);
          return;
        }
        reason = ErrorText(errno);
      }
    } catch (const std::runtime_error& error) {
      reason = error.what();  // the name may become known later
    }
    if (Clock::now() >= deadline) throw std::runtime_error("rank 0 did not answer: " + reason);
    std::this_thread::sleep_for(kRetry);
  }
}

std::optional<std::string> TcpStoreClient::Ask(char operation, const std::string& key,
                                               std::string_view value) {
  const std::lock_guard lock(mutex_);
  std::string request(1, operation);
  AppendLength(request, key.size());
  AppendLength(request, value.size());
  request += key;
  request += value;
  SendAll(socket_.fd(), request, deadline_);
  const std::string header = ReceiveExactly(socket_.fd(), kAnswerHeaderBytes, deadline_);
  std::string answer = ReceiveExactly(socket_.fd(), ReadLength(header.data() + 1), deadline_);
  return header[0] == '\1' ? std::optional<std::string>(std::move(answer)) : std::nullopt;
}

void TcpStoreClient::Set(const std::string& key, std::string_view value) { Ask(kSet, key, value); }

std::optional<std::string> TcpStoreClient::Get(const std::string& key) { return Ask(kGet, key, ""); }

void TcpStoreClient::Remove(const std::string& key) { Ask(kRemove, key, ""); }

std::vector<std::string> TcpStoreClient::Keys(const std::string& prefix) {
  std::vector<std::string> keys;
  const std::string answer = Ask(kKeys, prefix, "").value_or("");
  for (size_t begin = 0; begin < answer.size();) {
    const size_t end = answer.find('\n', begin);
    keys.push_back(answer.substr(begin, end - begin));
    begin = end + 1;
  }
  return keys;
}

}  // namespace gradsync::comm
