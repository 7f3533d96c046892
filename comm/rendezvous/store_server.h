#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/processes/file_descriptor.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/store.h"

namespace gradsync::comm {

// The key-value store of a job, in rank 0's process. One thread accepts connections, and each connection has
// a thread that answers its requests. The server rejects clients of another job and clients without the
// secret. The server closes a connection if a client sends a payload larger than the limits of protocol.h.
// When a client connects while 64 other clients have not proved that they know the secret, the server closes
// the oldest of these 64 connections. Thread-safe.
class StoreServer : public Store {
 public:
  struct Options {
    JobIdentity job{};
    std::string run{};   // the run that clients must name (Rank0::run)
    int size = 2;        // size of the world
    std::string host{};  // host of rank 0
    // A function that compares `terms`, the settings (such as the world's size) of a rank that joins, with
    // those of rank 0. The function returns an empty text if the settings agree, else an error message; the
    // job then fails with this message as its cause.
    std::function<std::string(int rank, const std::string& terms)> check{};
  };
  StoreServer(std::vector<FileDescriptor> listeners, Options options);
  // StoreServer's destructor first answers the other ranks' requests until all ranks that have joined have
  // closed their connections, but for at most one second. If the job has failed, the destructor then sends
  // the cause to each rank that is still connected, so that the next Set, Get or Meet on such a rank throws
  // JobFailed with the cause.
  ~StoreServer() override;

  // Waits until all ranks have joined, and returns the identity of each rank's host (HostOf), in rank order.
  // If ranks are missing at the deadline, the job fails with the message that `missing` returns; `missing`
  // receives a function that returns whether a given rank has joined. Throws JobFailed if the job fails
  // before all ranks have joined.
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
  // The state of one meeting, in which several ranks call Meet with the same key and wait for each other. The
  // last of these ranks to call Meet wakes the others.
  struct Meeting {
    std::vector<std::optional<std::vector<std::string>>> values;  // values by index
    int num_missing = 0;
    int num_waiting = 0;
    std::condition_variable changed;
  };

  void WakeAll();
  void Accept();
  // Called when a client connects. If 64 other clients have not yet proved that they know the secret, makes
  // the server close the oldest of these 64 connections.
  void RejectOldest();
  void Serve(Connection& connection);
  // Checks a client's protocol version, run, job name and secret, and answers its request to join the job as
  // a rank. Returns true when all ranks have joined and Admit has sent this client a frame of type kYes. If
  // the client does not become a rank, Admit returns false, or throws std::runtime_error if a message does
  // not arrive.
  bool Admit(Connection& connection);
  // Returns the answer to kJoin, a client's request to join as `rank`. Unless the answer is kNo, AnswerToJoin
  // waits until all ranks have joined, the job has failed, or rank 0 destroys the StoreServer. The answer is
  // kNo, which rejects the client, if another client that has joined as `rank` is still connected one second
  // after the request. Unless it is kNo, the answer is kLater if the request came after all ranks had joined.
  // The answer is also kLater if rank 0 destroys the StoreServer before all ranks have joined and before the
  // job has failed. After kLater the client connects again.
  Frame AnswerToJoin(Connection& connection, int rank, const std::string& host, const std::string& terms);
  void Answer(Connection& connection);
  // Returns the frame (message), of type kFailed or kRefused, with which rank 0 tells another rank the cause
  // of the job's failure.
  Frame CauseFrame() const {
    return {kind_ == FailureKind::kBadArgument ? FrameType::kRefused : FrameType::kFailed, cause_};
  }
  // Called before rank 0 closes a client's connection: may send the client a last frame for which the client
  // has not asked. If the job has failed, a client that is a rank of the job receives the cause of the
  // failure. A client that has not joined receives the frame kLater, which tells it to connect again, if rank
  // 0 destroys the StoreServer or if RejectOldest has ended this connection.
  void SendGoodbye(Connection& connection, bool is_rank);
  void MarkInformed(int rank);

  const Options options_;
  const std::vector<FileDescriptor> listeners_;
  const FileDescriptor wake_;  // eventfd: wakes the thread
  std::mutex mutex_;           // protects the members below
  std::condition_variable changed_;
  std::set<int> connected_;                        // ranks that have joined and not left
  std::set<int> told_;                             // ranks to which the cause has been sent
  std::vector<std::optional<std::string>> hosts_;  // hosts of the ranks that have joined
  bool has_begun_ = false;                         // all ranks have joined
  // Cause of the job's failure; empty if the job has not failed.
  std::string cause_;
  FailureKind kind_ = FailureKind::kOfRank;
  std::map<std::string, std::string> values_;
  std::map<std::string, Meeting> meetings_;  // meetings that not all ranks have left
  bool is_stopping_ = false;
  std::list<Connection> connections_;  // used by thread_ only
  std::thread thread_;
};

}  // namespace gradsync::comm
