#include "comm/rendezvous/tcp_store.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kHello = 'h';
constexpr char kSet = 's';
constexpr char kGet = 'g';
constexpr char kRemove = 'r';
constexpr char kKeys = 'k';
constexpr char kClaim = 'c';
constexpr char kProtocol[] = "gradsync store 2";

constexpr size_t kRequestHeaderBytes = 9;
constexpr size_t kAnswerHeaderBytes = 5;
// Far above what a rank has to say: whoever sends more is none. A value may hold a line for each of thousands
// of ranks.
constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxValueBytes = size_t{4} << 20;
constexpr size_t kMaxHelloBytes = 1024;
constexpr size_t kMaxStoreBytes = size_t{256} << 20;
// So many more than the job has ranks may be connected: those on their way out, and strangers.
constexpr size_t kSpareConnections = 64;
constexpr auto kHelloWithin = std::chrono::seconds(5);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kFarewell = std::chrono::seconds(1);
constexpr auto kProbe = std::chrono::milliseconds(200);

std::string ErrorText(int error) { return std::generic_category().message(error); }

void AppendLength(std::string& text, size_t length) {
  const uint32_t value = htonl(static_cast<uint32_t>(length));
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

size_t ReadLength(const char* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return ntohl(value);
}

std::string Packed(const JobIdentity& job) { return job.name + '\n' + job.secret; }

// Takes as long wherever the first difference is.
bool SameSecret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

void SendAll(const FileDescriptor& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EINTR && (errno != EAGAIN || !WaitFor(socket, POLLOUT, deadline))) {
      throw std::runtime_error("lost the connection to rank 0: " + ErrorText(errno));
    }
  }
}

std::string ReceiveExactly(const FileDescriptor& socket, size_t length, Deadline deadline) {
  std::string bytes(length, '\0');
  for (size_t done = 0; done < length;) {
    const ssize_t received = recv(socket.get(), bytes.data() + done, length - done, 0);
    if (received > 0) {
      done += static_cast<size_t>(received);
    } else if (received == 0) {
      throw std::runtime_error("rank 0 closed the connection");
    } else if (errno == EAGAIN && !WaitFor(socket, POLLIN, deadline)) {
      throw std::runtime_error("rank 0 does not answer");
    } else if (errno != EINTR && errno != EAGAIN) {
      throw std::runtime_error("lost the connection to rank 0: " + ErrorText(errno));
    }
  }
  return bytes;
}

}  // namespace

struct TcpStoreServer::Connection {
  FileDescriptor socket;
  Deadline hello_by;
  bool is_admitted = false;
  bool ends_after_answer = false;
  std::string received{};
  std::string unsent{};
  std::set<std::string> claims{};
};

TcpStoreServer::TcpStoreServer(const HostPort& address, const JobIdentity& job, int num_clients,
                               Deadline deadline)
    : job_(job), max_connections_(static_cast<size_t>(num_clients) + kSpareConnections), wake_(MakePipe()) {
  std::optional<Deadline> patience;  // with a rank 0 that is there already, but perhaps about to end
  listeners_ = Listen(address, deadline, [&] {
    try {
      TcpStoreClient(address, job, std::min(deadline, Clock::now() + kProbe));
    } catch (const Refused&) {
      throw;
    } catch (const std::runtime_error&) {
      return;  // no store, or none any more
    }
    if (!patience.has_value()) patience = Clock::now() + kFarewell;
    if (Clock::now() >= *patience) throw Refused("another process is rank 0 there");
  });
  thread_ = std::thread([this] { Serve(); });
}

TcpStoreServer::~TcpStoreServer() {
  stopping_ = true;
  wake_.write_end.Close();
  thread_.join();
}

bool TcpStoreServer::Claim(const std::string& name) { return ClaimFor(own_claims_, name); }

bool TcpStoreServer::ClaimFor(std::set<std::string>& owner, const std::string& name) {
  const std::lock_guard lock(claims_mutex_);
  if (!claims_.insert(name).second) return false;
  owner.insert(name);
  return true;
}

void TcpStoreServer::Serve() {
  std::vector<Connection> connections;
  Deadline end = Deadline::max();
  while (Clock::now() < end && !(stopping_ && connections.empty())) {
    if (stopping_ && end == Deadline::max()) {
      end = Clock::now() + kFarewell;
      listeners_.clear();
    }
    const bool may_accept = Clock::now() >= accept_again_;
    std::vector<pollfd> polled;
    for (const Connection& connection : connections) {
      // Whoever does not take its answers gets no more of them.
      const short events = connection.unsent.empty() ? POLLIN : POLLOUT;
      polled.push_back({.fd = connection.socket.get(), .events = events, .revents = 0});
    }
    polled.push_back({.fd = stopping_ ? -1 : wake_.read_end.get(), .events = POLLIN, .revents = 0});
    for (const FileDescriptor& listener : listeners_) {
      polled.push_back({.fd = may_accept ? listener.get() : -1, .events = POLLIN, .revents = 0});
    }
    const bool all_admitted = std::ranges::all_of(connections, &Connection::is_admitted);
    poll(polled.data(), polled.size(), stopping_ ? 10 : may_accept && all_admitted ? -1 : 50);

    const size_t num_polled = connections.size();
    for (size_t i = 0; i < num_polled; ++i) {
      Connection& connection = connections[i];
      if (polled[i].revents != 0) connection.unsent.empty() ? Read(connection) : Write(connection);
      if (!connection.is_admitted && Clock::now() >= connection.hello_by) Close(connection);
    }
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (polled[num_polled + 1 + i].revents != 0) Accept(listeners_[i], connections);
    }
    std::erase_if(connections, [](const Connection& connection) { return !connection.socket.valid(); });
  }
}

void TcpStoreServer::Accept(const FileDescriptor& listener, std::vector<Connection>& connections) {
  FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) {
    // Without descriptors or memory the next attempt would fail at once, again and again.
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_short) accept_again_ = Clock::now() + kAcceptPause;
    return;
  }
  if (connections.size() >= max_connections_) return;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  connections.push_back({.socket = std::move(socket), .hello_by = Clock::now() + kHelloWithin});
}

void TcpStoreServer::Close(Connection& connection) {
  connection.socket.Close();
  const std::lock_guard lock(claims_mutex_);
  for (const std::string& name : connection.claims) claims_.erase(name);
  connection.claims.clear();
}

void TcpStoreServer::Read(Connection& connection) {
  std::array<char, 65536> bytes;
  const ssize_t count = recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return Close(connection);
  std::string& received = connection.received;
  received.append(bytes.data(), static_cast<size_t>(count));
  if (received.size() >= kRequestHeaderBytes) {
    const size_t key_bytes = ReadLength(received.data() + 1);
    const size_t value_bytes = ReadLength(received.data() + 5);
    if (key_bytes > kMaxKeyBytes ||
        value_bytes > (connection.is_admitted ? kMaxValueBytes : kMaxHelloBytes)) {
      return Close(connection);
    }
    const size_t request_bytes = kRequestHeaderBytes + key_bytes + value_bytes;
    if (received.size() < request_bytes) return;
    if (received.size() > request_bytes) return Close(connection);  // a rank asks one thing at a time
    const auto [is_found, value] =
        Answer(connection, received[0], received.substr(kRequestHeaderBytes, key_bytes),
               received.substr(kRequestHeaderBytes + key_bytes));
    received.clear();
    connection.unsent += is_found ? '\1' : '\0';
    AppendLength(connection.unsent, value.size());
    connection.unsent += value;
    Write(connection);
  }
}

void TcpStoreServer::Write(Connection& connection) {
  std::string& unsent = connection.unsent;
  const ssize_t sent = send(connection.socket.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return Close(connection);
  if (sent > 0) unsent.erase(0, static_cast<size_t>(sent));
  if (unsent.empty() && connection.ends_after_answer) Close(connection);
}

std::string TcpStoreServer::ReasonToRefuse(const std::string& protocol, const std::string& identity) const {
  if (protocol != kProtocol) return "rank 0 is of another version of this program";
  const size_t end = std::min(identity.find('\n'), identity.size());
  const std::string name = identity.substr(0, end);
  const std::string_view secret = std::string_view(identity).substr(std::min(end + 1, identity.size()));
  if (name != job_.name) return Join("rank 0 is of job '", job_.name, "', this process of job '", name, "'");
  return SameSecret(secret, job_.secret) ? "" : "GRADSYNC_SECRET is not the one of rank 0";
}

std::pair<bool, std::string> TcpStoreServer::Answer(Connection& connection, char operation,
                                                    const std::string& key, const std::string& value) {
  if (!connection.is_admitted) {
    std::string reason = operation == kHello ? ReasonToRefuse(key, value) : "not before a hello";
    connection.is_admitted = reason.empty();
    connection.ends_after_answer = !connection.is_admitted;
    return {connection.is_admitted, std::move(reason)};
  }
  switch (operation) {
    case kSet:
      if (num_bytes() + key.size() + value.size() > kMaxStoreBytes) break;
      Set(key, value);
      return {true, ""};
    case kGet: {
      std::optional<std::string> found = Get(key);
      return {found.has_value(), found.value_or("")};
    }
    case kRemove:
      Remove(key);
      return {true, ""};
    case kKeys: {
      std::string keys;
      for (const std::string& found : Keys(key)) keys += found + '\n';
      if (keys.size() > kMaxValueBytes) break;
      return {true, std::move(keys)};
    }
    case kClaim:
      return {ClaimFor(connection.claims, key), ""};
    default:
      break;
  }
  connection.ends_after_answer = true;
  return {false, ""};
}

TcpStoreClient::TcpStoreClient(const HostPort& address, const JobIdentity& job, Deadline deadline)
    : deadline_(deadline) {
  for (;;) {
    try {
      socket_ = ConnectToAny({address}, deadline);
      std::string request(1, kHello);
      AppendLength(request, sizeof(kProtocol) - 1);
      const std::string identity = Packed(job);
      AppendLength(request, identity.size());
      SendAll(socket_, request + kProtocol + identity, deadline);
      const std::string header = ReceiveExactly(socket_, kAnswerHeaderBytes, deadline);
      if (header[0] == '\1') return;
      const size_t reason_bytes = std::min(ReadLength(header.data() + 1), kMaxHelloBytes);
      throw Refused(ReceiveExactly(socket_, reason_bytes, deadline));
    } catch (const Refused&) {
      throw;
    } catch (const std::runtime_error& error) {
      // A server that is about to end may hang up on those who come for the next one.
      if (Clock::now() >= deadline) {
        throw std::runtime_error(Join("rank 0 did not answer: ", error.what()));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
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
  SendAll(socket_, request, deadline_);
  const std::string header = ReceiveExactly(socket_, kAnswerHeaderBytes, deadline_);
  const size_t answer_bytes = ReadLength(header.data() + 1);
  if (answer_bytes > kMaxValueBytes) {
    throw std::runtime_error(Join("what answers for rank 0 announces ", answer_bytes, " bytes"));
  }
  std::string answer = ReceiveExactly(socket_, answer_bytes, deadline_);
  return header[0] == '\1' ? std::optional<std::string>(std::move(answer)) : std::nullopt;
}

void TcpStoreClient::Set(const std::string& key, std::string_view value) {
  if (!Ask(kSet, key, value).has_value()) throw std::runtime_error("rank 0 has no room for more");
}

std::optional<std::string> TcpStoreClient::Get(const std::string& key) { return Ask(kGet, key, ""); }

void TcpStoreClient::Remove(const std::string& key) { Ask(kRemove, key, ""); }

bool TcpStoreClient::Claim(const std::string& name) { return Ask(kClaim, name, "").has_value(); }

std::vector<std::string> TcpStoreClient::Keys(const std::string& prefix) {
  std::vector<std::string> keys;
  const std::string answer = Ask(kKeys, prefix, "").value_or("");
  for (size_t begin = 0; begin < answer.size();) {
    const size_t end = std::min(answer.find('\n', begin), answer.size());
    keys.push_back(answer.substr(begin, end - begin));
    begin = end + 1;
  }
  return keys;
}

void TcpStoreClient::SetDeadline(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
}

}  // namespace gradsync::comm
