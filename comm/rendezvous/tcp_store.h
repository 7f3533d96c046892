#ifndef GRADSYNC_COMM_RENDEZVOUS_TCP_STORE_H_
#define GRADSYNC_COMM_RENDEZVOUS_TCP_STORE_H_

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/processes/file_descriptor.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/store.h"

// A key-value store over TCP: rank 0 keeps the values, the others ask. A request is an operation (1 byte),
// the lengths of key and value (4 bytes each, big-endian), key, value; the answer is a status byte (1:
// found, done), the length of the value, the value. The first request says who asks, and for which job; a
// refusal says why.
namespace gradsync::comm {

// The server refused to talk to this client; what() is why.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Answers from a thread of its own, which sleeps as long as nobody asks. Clients of another job or without
// the secret, too many of them, and requests beyond any that a rank has are turned away.
class TcpStoreServer : public MemoryStore {
 public:
  // Listens where `address` says (comm/rendezvous/network.h), for the `num_clients` of the job. Waits for the
  // port to be free until the deadline, but not if another job has it. Throws std::runtime_error.
  TcpStoreServer(const HostPort& address, const JobIdentity& job, int num_clients, Deadline deadline);
  // Goes on for up to a second while others are connected, so that they can read why rank 0 gave up.
  ~TcpStoreServer() override;

  bool Claim(const std::string& name) override;
  int port() const { return PortOf(listeners_.front()); }

 private:
  struct Connection;

  void Serve();
  void Accept(const FileDescriptor& listener, std::vector<Connection>& connections);
  void Read(Connection& connection);
  void Write(Connection& connection);
  // The answer's status, and its value.
  std::pair<bool, std::string> Answer(Connection& connection, char operation, const std::string& key,
                                      const std::string& value);
  std::string ReasonToRefuse(const std::string& protocol, const std::string& identity) const;
  bool ClaimFor(std::set<std::string>& owner, const std::string& name);
  void Close(Connection& connection);

  const JobIdentity job_;
  const size_t max_connections_;
  std::vector<FileDescriptor> listeners_;
  Pipe wake_;  // closed to end the thread's sleep
  Deadline accept_again_{};
  std::mutex claims_mutex_;
  std::set<std::string> claims_;      // all
  std::set<std::string> own_claims_;  // of this process
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class TcpStoreClient : public Store {
 public:
  // Tries to connect until the deadline. Throws Refused at once, or std::runtime_error.
  TcpStoreClient(const HostPort& address, const JobIdentity& job, Deadline deadline);

  void Set(const std::string& key, std::string_view value) override;
  std::optional<std::string> Get(const std::string& key) override;
  void Remove(const std::string& key) override;
  std::vector<std::string> Keys(const std::string& prefix) override;
  bool Claim(const std::string& name) override;
  void SetDeadline(Deadline deadline) override;

 private:
  std::optional<std::string> Ask(char operation, const std::string& key, std::string_view value);

  std::mutex mutex_;
  Deadline deadline_;
  FileDescriptor socket_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_TCP_STORE_H_
