#ifndef GRADSYNC_COMM_TCP_STORE_H_
#define GRADSYNC_COMM_TCP_STORE_H_

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "comm/store.h"

// A key-value store over TCP: rank 0 keeps the values, the others ask. A request is an operation (1 byte),
// the lengths of key and value (4 bytes each, big-endian), key, value; the answer is a status byte (1:
// found), the length of the value, the value.
namespace gradsync::comm {

struct HostPort {
  std::string host;
  std::string port;
};

// Takes "host:port", "1.2.3.4:port" and "[::1]:port"; port 0 lets the server choose. Throws InvalidInput,
// which quotes `url`.
HostPort ParseHostPort(const std::string& text, const std::string& url);

// The address of this host that it sends from to `peer`; nothing is sent. Throws std::runtime_error if there
// is no such host, or no way to it.
std::string OwnAddressTowards(const HostPort& peer);

// A file descriptor, closed at the end.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Listens on all interfaces and answers from a thread of its own.
class TcpStoreServer : public MemoryStore {
 public:
  // Waits for the port to be free, until the deadline; port "0" is any. Throws std::runtime_error.
  TcpStoreServer(const HostPort& address, Deadline deadline);
  // Goes on for up to a second while others are connected, so that they can read why rank 0 gave up.
  ~TcpStoreServer() override;

  int port() const { return port_; }

 private:
  struct Connection;

  void Serve();
  // False when the connection is over.
  bool Handle(Connection& connection);
  std::string Answer(char operation, const std::string& key, const std::string& value);

  Socket listener_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class TcpStoreClient : public Store {
 public:
  // Tries to connect until the deadline. Later calls have a second more, to learn why rank 0 gave up. Throws
  // std::runtime_error.
  TcpStoreClient(const HostPort& address, Deadline deadline);
  void Set(const std::string& key, std::string_view value) override;
  std::optional<std::string> Get(const std::string& key) override;
  void Remove(const std::string& key) override;
  std::vector<std::string> Keys(const std::string& prefix) override;

 private:
  std::optional<std::string> Ask(char operation, const std::string& key, std::string_view value);

  const Deadline deadline_;
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_TCP_STORE_H_
