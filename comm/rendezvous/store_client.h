#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/store.h"

namespace gradsync::comm {

// The key-value store as a rank other than rank 0 uses it. Join, Set, Get, Meet and Fail each send one
// request to rank 0, unless rank 0 has already told this rank that the job has failed. Thread-safe, but a
// call waits until other threads' calls have ended, even past its own deadline.
class StoreClient : public Store {
 public:
  // The constructor connects to rank 0 at the address `rank0`, and checks that rank 0 knows the job's secret.
  // Throws Refused if rank 0 does not know the secret or rejects this process. Throws std::runtime_error if
  // the process at the address `rank0` is not the rank 0 that the text `run` identifies (Rank0::run). Also
  // throws std::runtime_error if connecting fails, the connection is lost, or the deadline passes.
  StoreClient(const HostPort& rank0, const JobIdentity& job, const std::string& run, Deadline deadline);

  // Joins the job as rank `rank`; the caller must call Join before the class's other functions. When all
  // ranks have joined, returns the identity of each rank's host (HostOf), in rank order. Returns nullopt if
  // this process must connect again, for example because all ranks had joined before, and the earlier process
  // of rank `rank` has left since. Throws Refused if rank 0 rejects this process, JobFailed if the job has
  // failed, and std::runtime_error if the connection is lost or the deadline passes.
  std::optional<std::vector<std::string>> Join(int rank, const std::string& host, const std::string& terms,
                                               Deadline deadline);
  void Set(const std::string& key, std::string_view value, Deadline deadline) override;
  std::optional<std::string> Get(const std::string& key, Deadline deadline) override;
  Values Meet(const std::string& key, int index, int size, const std::vector<std::string>& own,
              Deadline deadline) override;
  void Fail(const std::string& cause, FailureKind kind = FailureKind::kOfRank) noexcept override;
  std::optional<std::string> bad_argument() override;

 private:
  // Sends a request to rank 0, and returns the answer. Throws Refused if rank 0 rejects this process (kNo),
  // and JobFailed if the job has failed (kFailed, kRefused). If an answer other than kFailed and kRefused
  // arrives after the deadline of its request, a later Ask drops this answer.
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
