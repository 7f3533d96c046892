#include "bench/launch/placement.h"

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "absl/strings/str_join.h"
#include "bench/records/host.h"
#include "model/error.h"

namespace gradsync::bench {

Placement PlanPlacement(std::span<const int> cpus, int local_rank, int local_size, int threads_per_rank) {
  const size_t ranks = static_cast<size_t>(local_size);
  const size_t rank = static_cast<size_t>(local_rank);
  const size_t threads = static_cast<size_t>(threads_per_rank);
  Require(ranks * threads <= cpus.size(), "--placement=pin: ", local_size, " ranks of ", threads_per_rank,
          " threads need ", ranks * threads, " CPUs, this process may use ", cpus.size());
  Placement placement;
  const auto mine = cpus.begin() + static_cast<std::ptrdiff_t>(rank * threads);
  placement.compute_cpus.assign(mine, mine + static_cast<std::ptrdiff_t>(threads));
  const std::span<const int> spare = cpus.subspan(ranks * threads);
  if (spare.size() < ranks) return placement;
  for (size_t i = rank; i < spare.size(); i += ranks) placement.communication_cpus.push_back(spare[i]);
  return placement;
}

Placement PlanPlacement(const RankOptions& options, const comm::World& world) {
  if (options.placement != "pin") return {};
  return PlanPlacement(AllowedCpus(), world.local_rank, world.local_size,
                       static_cast<int>(options.threads_per_rank));
}

void RunOnCpus(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot run on CPUs " + absl::StrJoin(cpus, ","));
  }
}

ThreadPlacement::ThreadPlacement(const RankOptions& options, const comm::World& world)
    : all_cpus_(AllowedCpus()), placement_(PlanPlacement(options, world)) {
  if (pinned()) RunOnCpus(placement_.compute_cpus);
}

void ThreadPlacement::StartCommunication(const std::function<void()>& start) const {
  if (!pinned()) return start();
  // A thread inherits the CPUs of the thread that starts it.
  RunOnCpus(placement_.communication_cpus.empty() ? all_cpus_ : placement_.communication_cpus);
  start();
  RunOnCpus(placement_.compute_cpus);
}

}  // namespace gradsync::bench
