#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The machine under a benchmark: its memory and its processors.
namespace gradsync::bench {

// What control groups, of version 1 or 2, allow this process: its own group and all above it.
class ControlGroups {
 public:
  // Periods of a quota of CPU time so far, and those in which it was used up, so that threads had to wait.
  struct Periods {
    int64_t all = 0, throttled = 0;
  };

  // `root`: where they are mounted. `own`: the file that names a process's own.
  explicit ControlGroups(const std::string& root = "/sys/fs/cgroup",
                         const std::string& own = "/proc/self/cgroup");

  // The least that is left in one of them beside what is no file's cache; the largest number if none has a
  // limit.
  int64_t MemoryLeftBytes() const;
  // How many CPUs' time they allow; infinity likewise.
  double CpuQuota() const;
  // Of the group with the most.
  Periods CpuPeriods() const;

 private:
  std::vector<std::string> groups_;  // directories; some may be missing
};

// How much memory can be used without swapping: MemAvailable of /proc/meminfo, or what control groups have
// left if that is less. Nullopt if the system does not say.
std::optional<int64_t> AvailableMemoryBytes();

// The memory that this process has now, in pages that are resident, with those of its code and libraries.
std::optional<int64_t> ResidentBytes();

// The most memory that this process has had at once since then, or, where the system does not allow that,
// since it began, without what has been swapped out; nullopt where it cannot be read.
void ResetPeakResidentBytes();
std::optional<int64_t> PeakResidentBytes();

// The first line of a file that starts with `key`, without it and without any of `separators` at either end;
// empty if there is none. "MemAvailable:  23456 kB" has the entry "23456" between separators ": kB".
std::string ReadEntry(const std::string& path, std::string_view key, const char* separators);

// The NUMA node of the CPU that the calling thread is on; empty if the system does not say.
std::string NumaNode();

// The logical CPUs that the calling thread may run on, ascending.
std::vector<int> AllowedCpus();

}  // namespace gradsync::bench
