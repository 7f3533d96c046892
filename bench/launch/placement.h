#ifndef GRADSYNC_BENCH_LAUNCH_PLACEMENT_H_
#define GRADSYNC_BENCH_LAUNCH_PLACEMENT_H_

#include <functional>
#include <span>
#include <vector>

#include "bench/launch/rank_options.h"
#include "comm/rendezvous/world.h"

namespace gradsync::bench {

// Which CPUs a rank's threads run on. Empty: wherever the system puts them.
struct Placement {
  std::vector<int> compute_cpus;
  std::vector<int> communication_cpus;
};

// Gives every rank of a host CPUs of its own for its compute threads, and spreads the CPUs that are left over
// the ranks for their communication threads. With fewer left than ranks, communication threads stay unpinned.
// Throws InvalidInput if there are fewer CPUs than compute threads.
Placement PlanPlacement(std::span<const int> cpus, int local_rank, int local_size, int threads_per_rank);
// For the CPUs that this process may use; empty unless the ranks are to be pinned.
Placement PlanPlacement(const RankOptions& options, const comm::World& world);

// Restricts the calling thread, and the threads that it starts from now on, to `cpus`. Throws
// std::system_error.
void RunOnCpus(std::span<const int> cpus);

// Where a rank's threads run. Under --placement=pin the rank's own thread, and with it OpenMP's, is confined
// to its CPUs as long as this lives: to be made before the first kernel runs, because OpenMP's threads stay
// where they were started.
class ThreadPlacement {
 public:
  // Throws InvalidInput if there are not CPUs enough.
  ThreadPlacement(const RankOptions& options, const comm::World& world);

  bool pinned() const { return !placement_.compute_cpus.empty(); }
  const Placement& placement() const { return placement_; }
  // That this process might use before.
  const std::vector<int>& all_cpus() const { return all_cpus_; }

  // Calls `start`; threads that it starts get the CPUs for communication.
  void StartCommunication(const std::function<void()>& start) const;

 private:
  const std::vector<int> all_cpus_;
  const Placement placement_;  // empty unless pinned
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_PLACEMENT_H_
