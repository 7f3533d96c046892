#ifndef GRADSYNC_BENCH_LAUNCH_PLACEMENT_H_
#define GRADSYNC_BENCH_LAUNCH_PLACEMENT_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/launch/rank_options.h"
#include "comm/rendezvous/world.h"

namespace gradsync::bench {

// Which CPUs a rank's threads run on. Empty: wherever the system puts them.
struct Placement {
  std::vector<int> compute_cpus;
  std::vector<int> communication_cpus;
};

// Gives each of the ranks that share `cpus` CPUs of its own for its compute threads, and spreads the CPUs
// that are left over the ranks for their communication threads. With fewer left than ranks, communication
// threads stay unpinned. Throws InvalidInput if there are fewer CPUs than compute threads.
Placement PlanPlacement(std::span<const int> cpus, int place, int num_sharers, int threads_per_rank);

// What a rank's machine is called by all that run on it, and which of its CPUs the rank may use.
struct AllowedOfRank {
  std::string machine;
  std::vector<int> cpus{};
};
// How many ranks may use the same CPUs as this one, and how many of them come before it. Throws InvalidInput
// if another rank may use some of them and not all.
struct Sharers {
  int place = 0;
  int count = 0;
};
Sharers SharersOf(std::span<const AllowedOfRank> ranks, int rank);

// What can be known before this process starts all ranks: throws InvalidInput if there are not CPUs enough.
void CheckPlacement(const RankOptions& options);

// Restricts the calling thread, and the threads that it starts from now on, to `cpus`. Throws
// std::system_error.
void RunOnCpus(std::span<const int> cpus);

// Where a rank's threads run. Under --placement=pin the rank's own thread, and with it OpenMP's, is confined
// to its CPUs as long as this lives: to be made before the first kernel runs, because OpenMP's threads stay
// where they were started.
class ThreadPlacement {
 public:
  // All ranks, if they are to be pinned. Throws InvalidInput if there are not CPUs enough, CollectiveError
  // like Rendezvous.
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
