#include "bench/records/host.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

#include "bench/records/units.h"

namespace gradsync::bench {
namespace {

std::optional<int64_t> ReadInteger(const char* path) { return ParseInteger(ReadEntry(path, "", "\n")); }

// An entry that is a number of KiB.
std::optional<int64_t> ReadBytes(const char* path, const char* key) {
  std::optional<int64_t> bytes = ParseInteger(ReadEntry(path, key, ": kB\t"));
  if (bytes) *bytes *= 1024;
  return bytes;
}

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
  std::optional<int64_t> available = ReadBytes("/proc/meminfo", "MemAvailable");
  // The root of the control groups as a container sees it. A bare host has no such files there.
  const std::optional<int64_t> limit = ReadInteger("/sys/fs/cgroup/memory.max");
  const std::optional<int64_t> used = ReadInteger("/sys/fs/cgroup/memory.current");
  if (limit && used) {
    const int64_t left = std::max<int64_t>(0, *limit - *used);
    available = available ? std::min(*available, left) : left;
  }
  return available;
}

void ResetPeakResidentBytes() { std::ofstream("/proc/self/clear_refs") << 5; }

std::optional<int64_t> ResidentBytes() { return ReadBytes("/proc/self/status", "VmRSS"); }

std::optional<int64_t> PeakResidentBytes() { return ReadBytes("/proc/self/status", "VmHWM"); }

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

}  // namespace gradsync::bench
