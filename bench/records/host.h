#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Reads facts about the machine of a benchmark: its memory and its CPUs.
namespace gradsync::bench {

// Reads the limits of control groups (version 1 or 2) for this process: the limits of its own group and of
// all groups above it.
class ControlGroups {
 public:
  // The number of periods of a quota of CPU time so far, and the number of periods in which the quota was
  // used up, so that threads had to wait.
  struct Periods {
    int64_t all = 0, throttled = 0;
  };

  // `root` is the directory where control groups are mounted. `own` is the file that names the group of this
  // process.
  explicit ControlGroups(const std::string& root = "/sys/fs/cgroup",
                         const std::string& own = "/proc/self/cgroup");

  // Returns the smallest number of bytes that any of the groups has left, where cached files count as free;
  // the largest integer if no group has a limit.
  int64_t MemoryLeftBytes() const;
  // Returns the number of CPUs whose time the groups allow; infinity if no group has a limit.
  double CpuQuota() const;
  // Returns the periods of the group whose quota was used up most often.
  Periods CpuPeriods() const;

 private:
  std::vector<std::string> groups_;  // directories of the groups; some may be missing
};

// Returns the number of bytes that can be used without swapping: MemAvailable of /proc/meminfo, or, if
// smaller, the memory that control groups have left. Nullopt if unknown.
std::optional<int64_t> AvailableMemoryBytes();

// Returns the resident memory of this process in bytes, including its code and libraries.
std::optional<int64_t> ResidentBytes();

// PeakResidentBytes returns the maximum resident memory of this process since ResetPeakResidentBytes. If the
// system does not allow a reset, the maximum is since the process began. Swapped memory does not count.
// Nullopt if the value cannot be read.
void ResetPeakResidentBytes();
std::optional<int64_t> PeakResidentBytes();

// Returns the first line of a file that starts with `key`, without the key, and without any of `separators`
// at either end; empty if there is no such line. "MemAvailable: 23456 kB" has the entry "23456" between
// separators ": kB".
std::string ReadEntry(const std::string& path, std::string_view key, const char* separators);

// Returns the NUMA node of the CPU on which the calling thread runs; empty if unknown.
std::string NumaNode();

// Returns the logical CPUs on which the calling thread may run, in ascending order.
std::vector<int> AllowedCpus();

}  // namespace gradsync::bench
