#ifndef GRADSYNC_COMM_RENDEZVOUS_STORE_H_
#define GRADSYNC_COMM_RENDEZVOUS_STORE_H_

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

// Where the ranks of a job meet, and leave each other notes before they are connected. Rank 0 keeps the
// notes; the other ranks reach it over TCP.
namespace gradsync::comm {

// Which ranks belong together.
struct JobIdentity {
  std::string name{};    // no other job's, unless it is empty: unknown
  std::string secret{};  // known to its ranks alone, unless it is empty
};

// This process does not belong to the job there; what() is why. Trying again does not help.
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

// Throws JobFailed once any rank has called Fail; std::runtime_error, one line, when rank 0 cannot be
// reached.
class Store {
 public:
  virtual ~Store() = default;
  // Waits for rank 0's answer until the deadline.
  virtual void Set(const std::string& key, std::string_view value, Deadline deadline) = 0;
  // Waits until a rank has set the key; nullopt if none has by the deadline.
  virtual std::optional<std::string> Get(const std::string& key, Deadline deadline) = 0;
  // Waits until each of `size` ranks has called this with the key, under its own index. Returns what each of
  // them has for this one: the value of that index, or the only one that it has. nullopt for those that have
  // not come by the deadline.
  using Values = std::vector<std::optional<std::string>>;
  virtual Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
                      Deadline deadline) = 0;
  // Tells all ranks why the job has failed, if rank 0 can be reached. The first cause stays.
  virtual void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept = 0;
  // The cause, if this rank has learnt it and it is an argument that cannot be used.
  virtual std::optional<std::string> bad_argument() = 0;
};

// Rank 0's. Answers each client from a thread of its own, which sleeps between requests. Turns away clients
// of another job or without the secret, the oldest of too many who have not proven that they know it, and
// requests larger than any rank's. Thread-safe.
class StoreServer : public Store {
 public:
  struct Options {
    JobIdentity job{};
    std::string run{};   // what clients must know of this run in advance; empty: nothing
    int size = 2;        // of the world
    std::string host{};  // of rank 0
    // What is wrong with a rank that has these terms: then the job fails. Empty if nothing is.
    std::function<std::string(int rank, const std::string& terms)> check{};
  };
  StoreServer(std::vector<FileDescriptor> listeners, Options options);
  // Serves until all joined ranks have left, but a second at most. If the job has failed, those that have not
  // left learn the cause even if they ask later.
  ~StoreServer() override;

  // Returns the hosts of all ranks when they have joined. If some have not by the deadline, the job fails
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
  // Those who call Meet with one key. The last to come wakes the others, and nobody else does.
  struct Meeting {
    std::vector<std::optional<std::vector<std::string>>> values;  // by index
    int num_missing = 0;
    int num_waiting = 0;
    std::condition_variable changed;
  };

  void WakeAll();
  void Accept();
  // Of the connections that are not a rank's, if there are too many. They may come again.
  void RejectOldest();
  void Serve(Connection& connection);
  // Whether it has joined, and has been told that all ranks have; else it is turned away.
  bool Admit(Connection& connection);
  // Waits until all ranks have joined, or one is not as rank 0.
  Frame AnswerToJoin(Connection& connection, int rank, const std::string& host, const std::string& terms);
  // Answers its requests until it leaves.
  void Answer(Connection& connection);
  // Once the job has failed.
  Frame CauseFrame() const {
    return {kind_ == FailureKind::kBadArgument ? FrameType::kRefused : FrameType::kFailed, cause_};
  }
  // Sends what nobody has asked for. To a rank, the cause if the job has failed: one that asks when rank 0
  // has gone still finds it in its socket. To others, if rank 0 is leaving or has turned them away, that they
  // may come again: a rank of the next run, which is joining meanwhile, would take rank 0 for dead.
  void SendGoodbye(Connection& connection, bool is_rank);
  // The rank knows the cause.
  void MarkInformed(int rank);

  const Options options_;
  const std::vector<FileDescriptor> listeners_;
  const FileDescriptor wake_;  // eventfd: to end the thread's sleep
  std::mutex mutex_;           // of what follows
  std::condition_variable changed_;
  std::set<int> connected_;                        // ranks that have joined, and not left
  std::set<int> told_;                             // ranks that know the cause
  std::vector<std::optional<std::string>> hosts_;  // of the ranks that have joined
  bool has_begun_ = false;                         // all ranks have joined
  std::string cause_;                              // why the job has failed; empty: it has not
  FailureKind kind_ = FailureKind::kOfRank;
  std::map<std::string, std::string> values_;
  std::map<std::string, Meeting> meetings_;  // until all have left
  bool is_stopping_ = false;
  std::list<Connection> connections_;  // of the thread
  std::thread thread_;
};

// Another rank's. Thread-safe, but calls wait for each other.
class StoreClient : public Store {
 public:
  // Connects, and makes sure that rank 0 knows the secret. Throws Refused, or std::runtime_error if rank 0
  // cannot be reached by the deadline.
  StoreClient(const HostPort& rank0, const JobIdentity& job, const std::string& run, Deadline deadline);

  // Joins the job, which all other calls need. Returns the hosts of all ranks when all have joined; nullopt
  // if the run there has begun without this process. Throws Refused, JobFailed, std::runtime_error.
  std::optional<std::vector<std::string>> Join(int rank, const std::string& host, const std::string& terms,
                                               Deadline deadline);
  void Set(const std::string& key, std::string_view value, Deadline deadline) override;
  std::optional<std::string> Get(const std::string& key, Deadline deadline) override;
  Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
              Deadline deadline) override;
  void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept override;
  std::optional<std::string> bad_argument() override;

 private:
  // Throws Refused if the answer is kNo, JobFailed if it is kFailed or kRefused. Drops answers that came too
  // late for those who had asked.
  Frame Ask(FrameType type, const std::string& payload, Deadline deadline);

  const std::string secret_;
  std::mutex mutex_;
  Channel channel_;
  int num_unanswered_ = 0;
  const std::string hello_;
  std::string failure_;  // the job's, once rank 0 has told of it
  FailureKind kind_ = FailureKind::kOfRank;
  std::string nonce_;  // of rank 0
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_STORE_H_
