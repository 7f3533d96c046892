#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// Lets the ranks of a process group exchange values while they construct the group. Two process groups that
// are constructed at the same time must have no rank in common.
class Rendezvous {
 public:
  // Uses the world's job, or, if it has none, forms a new job with the world's ranks. Throws InvalidInput for
  // a malformed url, and CollectiveError if ranks are missing after the timeout or the job has failed.
  Rendezvous(const World& world, std::chrono::milliseconds timeout);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Waits for all ranks, and returns, in rank order, the value that each rank gave for this rank. `own` is
  // what this rank gives: own[r] is for rank r, or its only value is for all ranks. All ranks must call this.
  // Throws CollectiveError, one line, when ranks are missing after the timeout ("rank 0: rank 1 did not
  // arrive at file:///x within 60.0 s; arrived: 0, 2"), rank 0 is gone, or any rank has failed here.
  std::vector<std::string> Exchange(const std::vector<std::string>& own);

  std::vector<std::string> hosts() const;
  Deadline deadline() const { return deadline_; }

 private:
  const World world_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  const std::shared_ptr<Job> job_;
  const std::string prefix_;  // prefix of the group's keys
  int num_exchanges_ = 0;
};

}  // namespace gradsync::comm
