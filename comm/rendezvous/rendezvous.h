#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// Lets the ranks of a process group exchange values, such as the names of their sockets, while they construct
// the group. Two threads of a rank must not construct process groups at the same time.
class Rendezvous {
 public:
  // The new Rendezvous exchanges values through the job that the ranks of `world` have joined (World::job).
  // If the ranks have joined no job, the constructor of Rendezvous forms a new job with them, and throws the
  // exceptions of Job's constructor.
  Rendezvous(const World& world, std::chrono::milliseconds timeout);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Waits until all ranks of the group have called Exchange, and returns, in rank order, the value that each
  // rank gave for this rank. `own` has the values that this rank gives: own[r] is for rank r; if `own` has
  // only one element, this element is for all ranks. Throws CollectiveError if the process of rank 0 has
  // ended or the job has failed. Also throws CollectiveError if a rank has not called Exchange by deadline():
  // "rank 0: rank 1 did not arrive at file:///x within 60.0 s; arrived: 0, 2".
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
