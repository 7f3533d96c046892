#include "bench/records/host.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "absl/strings/str_join.h"
#include "bench/records/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

std::optional<int64_t> ReadInteger(const char* path) { return ParseInteger(ReadEntry(path, "", "\n")); }

}  // namespace

std::string ReadEntry(const std::string& path, std::string_view key, const char* separators) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    const size_t begin = line.find_first_not_of(separators, key.size());
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(separators) - begin + 1);
  }
  return "";
}

std::optional<int64_t> AvailableMemoryBytes() {
  std::optional<int64_t> available = ParseInteger(ReadEntry("/proc/meminfo", "MemAvailable", ": kB"));
  if (available) *available *= 1024;
  // The root of the control groups as a container sees it. A bare host has no such files there.
  const std::optional<int64_t> limit = ReadInteger("/sys/fs/cgroup/memory.max");
  const std::optional<int64_t> used = ReadInteger("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    const int64_t left = std::max<int64_t>(0, *limit - *used);
    available = available ? std::min(*available, left) : left;
  }
  return available;
}

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

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

void RunOnCpus(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot run on CPUs " + absl::StrJoin(cpus, ","));
  }
}

}  // namespace gradsync::bench
