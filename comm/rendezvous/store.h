#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
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
#include "comm/rendezvous/protocol.h"

// A key-value store for the ranks of a job before they are connected. Rank 0 keeps the values; the other
// ranks reach it over TCP.
namespace gradsync::comm {

// Identifies the ranks of a job.
struct JobIdentity {
  std::string name{};    // unique, or empty if unknown
  std::string secret{};  // known only to the ranks of the job; empty if there is no secret
};

// This process does not belong to the job at this place; what() is the reason. A retry does not help.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class FailureKind { kOfRank, kBadArgument };

// A rank has made the job fail; what() is the cause.
class JobFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The calls throw JobFailed after any rank has called Fail, and std::runtime_error, one line, if rank 0
// cannot be reached.
class Store {
 public:
  virtual ~Store() = default;
  // Sets a value. Waits for rank 0's answer until the deadline.
  virtual void Set(const std::string& key, std::string_view value, Deadline deadline) = 0;
  // Returns the value of a key. Waits until a rank has set the key; nullopt if no rank has set it by the
  // deadline.
  virtual std::optional<std::string> Get(const std::string& key, Deadline deadline) = 0;
  // Waits until each of `size` ranks has called this with the key and its own index. Returns each rank's
  // value for this rank, which is the value with this rank's index, or the only value of that rank. The value
  // is nullopt for a rank that has not called by the deadline.
  using Values = std::vector<std::optional<std::string>>;
  virtual Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
                      Deadline deadline) = 0;
  // Sends all ranks the cause of the job's failure, if rank 0 can be reached. Later calls do not replace the
  // first cause.
  virtual void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept = 0;
  // Returns the cause of the failure if this rank knows it and the cause is an argument that cannot be used.
  virtual std::optional<std::string> bad_argument() = 0;
};

// The store of rank 0. One thread answers all clients, and sleeps between requests. Rejects clients of
// another job, clients without the secret, and requests that are larger than requests of ranks. If there are
// too many unauthenticated clients, closes the oldest. Thread-safe.
class StoreServer : public Store {
 public:
  struct Options {
    JobIdentity job{};
    std::string run{};   // the run that clients must name; if empty, any run is accepted
    int size = 2;        // size of the world
    std::string host{};  // host of rank 0
    // Checks the terms of a rank. Returns an error if the rank must not have these terms, and then the job
    // fails; empty if there is no error.
    std::function<std::string(int rank, const std::string& terms)> check{};
  };
  StoreServer(std::vector<FileDescriptor> listeners, Options options);
  // Serves until all joined ranks have left, but at most one second longer. If the job has failed, ranks that
  // have not left receive the cause even if they send a request later.
  ~StoreServer() override;

  // Returns the hosts of all ranks when they have joined. If ranks are missing at the deadline, the job fails
  // with the message of `missing`, which can ask for each rank whether it has joined. Throws JobFailed.
  std::vector<std::string> WaitForRanks(
      Deadline deadline,
      const std::function<std::string(const std::function<bool(int)>& has_joined)>& missing);
  int port() const { return PortOf(listeners_.front()); }

  void Set(const std::string& key, std::string_view value, Deadline deadline) override;
  std::optional<std::string> Get(const std::string& key, Deadline deadline) override;
  Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
              Deadline deadline) override;
  void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept override;
  std::optional<std::string> bad_argument() override;

 private:
  struct Connection;
  // The ranks that call Meet with one key. Only the last rank that calls wakes the other ranks.
  struct Meeting {
    std::vector<std::optional<std::vector<std::string>>> values;  // values by index
    int num_missing = 0;
    int num_waiting = 0;
    std::condition_variable changed;
  };

  void WakeAll();
  void Accept();
  // If there are too many connections, closes the oldest connection that does not belong to a rank. The owner
  // of the connection may reconnect.
  void RejectOldest();
  void Serve(Connection& connection);
  // Returns whether the client has joined and knows that all ranks have joined; else closes the connection.
  bool Admit(Connection& connection);
  // Waits until all ranks have joined, or the terms of one rank differ from rank 0's terms.
  Frame AnswerToJoin(Connection& connection, int rank, const std::string& host, const std::string& terms);
  // Answers the client's requests until it leaves.
  void Answer(Connection& connection);
  // Returns the answer to every request after the job has failed.
  Frame CauseFrame() const {
    return {kind_ == FailureKind::kBadArgument ? FrameType::kRefused : FrameType::kFailed, cause_};
  }
  // Sends a last message without a request. If the job has failed, a rank receives the cause, so that a rank
  // that sends a request after the end of rank 0 finds the cause in its socket. If rank 0 ends or has
  // rejected another client, this client receives permission to reconnect. Otherwise a rank of the next run,
  // which is joining, would assume that rank 0 has died.
  void SendGoodbye(Connection& connection, bool is_rank);
  // Notes that the rank knows the cause.
  void MarkInformed(int rank);

  const Options options_;
  const std::vector<FileDescriptor> listeners_;
  const FileDescriptor wake_;  // eventfd: wakes the thread
  std::mutex mutex_;           // protects the members below
  std::condition_variable changed_;
  std::set<int> connected_;                        // ranks that have joined and not left
  std::set<int> told_;                             // ranks that have received the cause
  std::vector<std::optional<std::string>> hosts_;  // hosts of the ranks that have joined
  bool has_begun_ = false;                         // all ranks have joined
  // Cause of the job's failure; empty if the job has not failed.
  std::string cause_;
  FailureKind kind_ = FailureKind::kOfRank;
  std::map<std::string, std::string> values_;
  std::map<std::string, Meeting> meetings_;  // meetings that not all ranks have left
  bool is_stopping_ = false;
  std::list<Connection> connections_;  // used by the thread only
  std::thread thread_;
};

// The store of a rank other than rank 0. Thread-safe, but concurrent calls wait for each other.
class StoreClient : public Store {
 public:
  // Connects, and checks that rank 0 knows the secret. Throws Refused, or std::runtime_error if rank 0 cannot
  // be reached by the deadline.
  StoreClient(const HostPort& rank0, const JobIdentity& job, const std::string& run, Deadline deadline);

  // Joins the job; must be called before all other calls. Returns the hosts of all ranks when all have
  // joined; nullopt if the run at rank 0 has begun without this process. Throws Refused, JobFailed,
  // std::runtime_error.
  std::optional<std::vector<std::string>> Join(int rank, const std::string& host, const std::string& terms,
                                               Deadline deadline);
  void Set(const std::string& key, std::string_view value, Deadline deadline) override;
  std::optional<std::string> Get(const std::string& key, Deadline deadline) override;
  Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
              Deadline deadline) override;
  void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept override;
  std::optional<std::string> bad_argument() override;

 private:
  // Sends a request and returns the answer. Throws Refused if the answer is kNo, JobFailed if it is kFailed
  // or kRefused. Drops late answers to earlier requests.
  Frame Ask(FrameType type, const std::string& payload, Deadline deadline);

  const std::string secret_;
  std::mutex mutex_;
  Channel channel_;
  int num_unanswered_ = 0;
  const std::string hello_;
  std::string failure_;  // failure of the job, after rank 0 has sent it
  FailureKind kind_ = FailureKind::kOfRank;
  std::string nonce_;  // nonce of rank 0
};

}  // namespace gradsync::comm
