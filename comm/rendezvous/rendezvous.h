#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// Lets the ranks of a process group exchange texts, such as socket names, while they construct the group. Two
// threads of a rank must not construct process groups at the same time.
class Rendezvous {
 public:
  // Exchange sends texts through the connections of World::job. If World::job is null, the constructor makes
  // a new Job, which connects the ranks of `world` or throws.
  Rendezvous(const World& world, std::chrono::milliseconds timeout);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Waits until all ranks have called Exchange, and returns each rank's text for this rank, in rank order.
  // own[r] is this rank's text for rank r; a single element of `own` is for all ranks. Throws CollectiveError
  // if a rank has not called Exchange by deadline(), the job fails first, or rank 0 cannot be reached.
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
