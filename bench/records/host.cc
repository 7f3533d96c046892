#include "bench/records/host.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_split.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

std::optional<int64_t> ReadInteger(const std::string& path, std::string_view key = "") {
  return ParseInteger(ReadEntry(path, key, " \n"));
}

// Reads an entry that is a number of KiB.
std::optional<int64_t> ReadBytes(const char* path, const char* key) {
  std::optional<int64_t> bytes = ParseInteger(ReadEntry(path, key, ": kB\t"));
  if (bytes) *bytes *= 1024;
  return bytes;
}

}  // namespace

// Lines are "4:cpu,cpuacct:/a/b", or, of version 2, "0::/a/b". In a container, directories of the group's
// path may be missing. Then the files at the root belong to this group.
ControlGroups::ControlGroups(const std::string& root, const std::string& own) {
  std::ifstream lines(own);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !parts[2].starts_with('/')) continue;
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      for (std::string path = parts[2];; path.resize(path.rfind('/'))) {
        groups_.push_back(Join(root, "/", controller, path, "/"));
        if (path.empty()) break;
      }
    }
  }
}

int64_t ControlGroups::MemoryLeftBytes() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::string& group : groups_) {
    const auto read = [&](const char* v2, const char* v1) {
      const auto value = ReadInteger(group + v2);
      return value ? value : ReadInteger(group + v1);
    };
    const auto limit = read("memory.max", "memory.limit_in_bytes"),
               used = read("memory.current", "memory.usage_in_bytes");
    if (!limit || !used) continue;
    // Cached files can be read again, so their memory counts as free.
    const auto cache = [&](const char* part) { return ReadInteger(group + "memory.stat", part).value_or(0); };
    least = std::min(least, *limit - *used + cache("inactive_file") + cache("active_file"));
  }
  return std::max<int64_t>(0, least);
}

double ControlGroups::CpuQuota() const {
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& group : groups_) {
    // The text is "50000 100000" or "max 100000". Version 1 has two files, with -1 for no limit.
    std::string text = ReadEntry(group + "cpu.max", "", "\n");
    if (text.empty())
      text = Join(ReadEntry(group + "cpu.cfs_quota_us", "", "\n"), " ",
                  ReadEntry(group + "cpu.cfs_period_us", "", "\n"));
    const std::pair<std::string, std::string> both = absl::StrSplit(text, absl::MaxSplits(' ', 1));
    const auto quota = ParseInteger(both.first), period = ParseInteger(both.second);
    if (quota.value_or(0) > 0 && period.value_or(0) > 0)
      least = std::min(least, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  return least;
}

ControlGroups::Periods ControlGroups::CpuPeriods() const {
  Periods most;
  for (const std::string& group : groups_) {
    most.all = std::max(most.all, ReadInteger(group + "cpu.stat", "nr_periods").value_or(0));
    most.throttled = std::max(most.throttled, ReadInteger(group + "cpu.stat", "nr_throttled").value_or(0));
  }
  return most;
}

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
  if (available) available = std::min(*available, ControlGroups().MemoryLeftBytes());
  return available;
}

std::string NumaNode() {
  unsigned cpu = 0, node = 0;
  return getcpu(&cpu, &node) == 0 ? Join(node) : "";
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
