#include "bench/records/host.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_split.h"
#include "bench/records/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

std::optional<int64_t> ReadInteger(const std::string& path, std::string_view key = "") {
  return ParseInteger(ReadEntry(path, key, " \n"));
}

// An entry that is a number of KiB.
std::optional<int64_t> ReadBytes(const char* path, const char* key) {
  std::optional<int64_t> bytes = ParseInteger(ReadEntry(path, key, ": kB\t"));
  if (bytes) *bytes *= 1024;
  return bytes;
}

template <class T>
std::optional<T> Least(std::optional<T> a, std::optional<T> b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

// "123": a limit, of version 2 or, elsewhere, 1.
std::optional<int64_t> ReadEither(const std::string& directory, const char* v2, const char* v1) {
  const std::optional<int64_t> value = ReadInteger(directory + v2);
  return value ? value : ReadInteger(directory + v1);
}

// Of a group and those below it: files that are read again when they are needed. Their memory is free.
int64_t FileCacheBytes(const std::string& directory) {
  int64_t sum = 0;
  for (const char* const part : {"inactive_file", "active_file"}) {
    const auto of_all = ReadInteger(directory + "memory.stat", Join("total_", part));  // in version 1
    sum += (of_all ? of_all : ReadInteger(directory + "memory.stat", part)).value_or(0);
  }
  return sum;
}

}  // namespace

// Lines are "4:cpu,cpuacct:/a/b", or, of version 2, "0::/a/b". In a container, directories of its own path
// may be missing; what lies at the root is then its own.
ControlGroups::ControlGroups(const std::string& root, const std::string& own) {
  std::ifstream lines(own);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !parts[2].starts_with('/')) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    for (const auto& [name, directories] : {std::pair("cpu", &cpu_), std::pair("memory", &memory_)}) {
      const bool is_v1 = std::ranges::count(controllers, name) > 0;
      if (!is_v1 && !parts[1].empty()) continue;
      const std::string mount = is_v1 ? Join(root, "/", name) : root;
      for (std::string path = parts[2] == "/" ? "" : parts[2];; path.resize(path.rfind('/'))) {
        directories->push_back(Join(mount, path, "/"));
        if (path.empty()) break;
      }
    }
  }
}

std::optional<int64_t> ControlGroups::MemoryLeftBytes() const {
  std::optional<int64_t> least;
  for (const std::string& group : memory_) {
    const auto limit = ReadEither(group, "memory.max", "memory.limit_in_bytes");
    const auto used = ReadEither(group, "memory.current", "memory.usage_in_bytes");
    if (!limit || !used) continue;
    least = Least(least, std::optional(std::max<int64_t>(0, *limit - *used + FileCacheBytes(group))));
  }
  return least;
}

std::optional<double> ControlGroups::CpuQuota() const {
  std::optional<double> least;
  for (const std::string& group : cpu_) {
    // "50000 100000", or "max 100000"; in version 1 two files, or -1.
    const std::vector<std::string> both = absl::StrSplit(ReadEntry(group + "cpu.max", "", "\n"), ' ');
    const auto quota = both.size() == 2 ? ParseInteger(both[0]) : ReadInteger(group + "cpu.cfs_quota_us");
    const auto period = both.size() == 2 ? ParseInteger(both[1]) : ReadInteger(group + "cpu.cfs_period_us");
    if (quota.value_or(-1) > 0 && period.value_or(0) > 0)
      least = Least(least, std::optional(static_cast<double>(*quota) / static_cast<double>(*period)));
  }
  return least;
}

ControlGroups::Periods ControlGroups::CpuPeriods() const {
  Periods sum;
  for (const std::string& group : cpu_) {
    sum.all += ReadInteger(group + "cpu.stat", "nr_periods").value_or(0);
    sum.throttled += ReadInteger(group + "cpu.stat", "nr_throttled").value_or(0);
  }
  return sum;
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
  const std::optional<int64_t> available = ReadBytes("/proc/meminfo", "MemAvailable");
  return Least(available, ControlGroups().MemoryLeftBytes());
}

std::string HugePages() {
  const std::string all = ReadEntry("/sys/kernel/mm/transparent_hugepage/enabled", "", "");
  const size_t begin = all.find('[') + 1;  // "always [madvise] never"
  return all.substr(begin, all.find(']') - begin);
}

std::string Governor() {
  return ReadEntry(Join("/sys/devices/system/cpu/cpu", sched_getcpu(), "/cpufreq/scaling_governor"), "",
                   "\n");
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
