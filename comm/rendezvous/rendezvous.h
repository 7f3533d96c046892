#ifndef GRADSYNC_COMM_RENDEZVOUS_RENDEZVOUS_H_
#define GRADSYNC_COMM_RENDEZVOUS_RENDEZVOUS_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// The ranks of a group that is being formed, and notes between them that no other group can see. Groups that
// are formed at the same time have no rank in common.
class Rendezvous {
 public:
  // Returns when all ranks have arrived: those of the world's job, or, if it has none, whoever meets now.
  // Throws InvalidInput for a malformed url, CollectiveError, one line, when ranks are missing after the
  // timeout ("rank 0: rank 1 did not arrive at file:///x within 60.0 s; arrived: 0, 2") or the place cannot
  // be used.
  Rendezvous(const World& world, std::chrono::milliseconds timeout);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Throw CollectiveError if rank 0 is gone, or any rank has failed here. Each key is set once, by one rank.
  void Set(const std::string& key, std::string_view value);
  // Waits for the value that rank `from` sets, until the deadline of the whole rendezvous.
  std::string Get(const std::string& key, int from);

  // Where each rank is, by rank: see Job.
  std::vector<std::string> hosts() const;
  Deadline deadline() const { return deadline_; }

 private:
  void WaitForAll();
  // Tells the other ranks too, so that all report the same cause.
  [[noreturn]] void Fail(const std::string& cause);

  const World world_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  const std::shared_ptr<Job> job_;
  const std::string prefix_;  // of the group's keys
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_RENDEZVOUS_H_
