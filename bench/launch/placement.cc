#include "bench/launch/placement.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/records/host.h"
#include "bench/records/units.h"
#include "comm/processes/host.h"
#include "comm/rendezvous/rendezvous.h"
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

Sharers SharersOf(std::span<const AllowedOfRank> ranks, int rank) {
  const AllowedOfRank& own = ranks[static_cast<size_t>(rank)];
  Sharers sharers;
  for (int other = 0; other < std::ssize(ranks); ++other) {
    const auto& [machine, cpus] = ranks[static_cast<size_t>(other)];
    if (machine != own.machine) continue;
    if (cpus == own.cpus) {
      if (other < rank) ++sharers.place;
      ++sharers.count;
      continue;
    }
    Require(std::ranges::find_first_of(cpus, own.cpus) == cpus.end(), "--placement=pin: ranks ", rank,
            " and ", other, " may use CPUs ", absl::StrJoin(own.cpus, ","), " and ", absl::StrJoin(cpus, ","),
            " of one machine, expected the same, or none in common");
  }
  return sharers;
}

void CheckPlacement(const RankOptions& options) {
  if (options.placement == "pin")
    PlanPlacement(AllowedCpus(), 0, static_cast<int>(options.world_size), options.compute_threads());
}

namespace {

// All ranks tell each other what they may use, because hosts may be parts of one machine, and a launcher may
// bind ranks.
Placement PlacementOf(const RankOptions& options, const comm::World& world) {
  if (options.placement != "pin") return {};
  const std::vector<int> cpus = AllowedCpus();
  Sharers sharers{.count = 1};
  if (world.size > 1) {
    std::vector<AllowedOfRank> ranks;
    for (const std::string& text : comm::Rendezvous(world, options.timeout)
                                       .Exchange({comm::BootIdentity() + "," + absl::StrJoin(cpus, ",")})) {
      const std::vector<std::string> parts = absl::StrSplit(text, ',');
      AllowedOfRank& rank = ranks.emplace_back(AllowedOfRank{.machine = parts.front()});
      for (size_t i = 1; i < parts.size(); ++i)
        rank.cpus.push_back(static_cast<int>(*ParseInteger(parts[i])));
    }
    sharers = SharersOf(ranks, world.rank);
  }
  return PlanPlacement(cpus, sharers.place, sharers.count, options.compute_threads());
}

}  // namespace

void RunOnCpus(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot run on CPUs " + absl::StrJoin(cpus, ","));
  }
}

ThreadPlacement::ThreadPlacement(const RankOptions& options, const comm::World& world)
    : all_cpus_(AllowedCpus()), placement_(PlacementOf(options, world)) {
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
