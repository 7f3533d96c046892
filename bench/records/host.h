#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::bench {

// Reads the limits on memory and CPU time that Linux control groups (version 1 or 2) set for this process.
// The control group of the process and all parents of this group limit the process.
class ControlGroups {
 public:
  // A control group gets its quota of CPU time anew in each period, such as 100 ms. `all` counts the periods
  // so far, and `throttled` those in which the group's processes used up the quota, so that threads had to
  // wait.
  struct Periods {
    int64_t all = 0, throttled = 0;
  };

  // `root` is the directory where control groups are mounted. `own` is the path of the file in which Linux
  // names the control group of this process.
  explicit ControlGroups(const std::string& root = "/sys/fs/cgroup",
                         const std::string& own = "/proc/self/cgroup");

  // Returns how many bytes this process can still use: the least that any of the control groups allows, where
  // cached files count as free. Returns more bytes than any machine has if no group has a limit.
  int64_t MemoryLeftBytes() const;
  // Returns how many CPUs' time, such as 1.5, the control groups' quotas of CPU time let this process use;
  // infinity without a quota.
  double CpuQuota() const;
  // Returns how many periods of the CPU quota there were (`all`), and in how many of them the quota was used
  // up (`throttled`). Each number is the maximum over the control groups that limit this process.
  Periods CpuPeriods() const;

 private:
  std::vector<std::string> groups_;  // directories of the groups; some may be missing
};

// Returns the number of bytes that this process can use without swapping: MemAvailable of /proc/meminfo, or
// ControlGroups::MemoryLeftBytes if that is smaller. Returns nullopt if MemAvailable cannot be read.
std::optional<int64_t> AvailableMemoryBytes();

// Returns the resident memory of this process in bytes, including its code and libraries; nullopt if it
// cannot be read.
std::optional<int64_t> ResidentBytes();

// PeakResidentBytes returns the maximum resident memory in bytes of this process since the last call of
// ResetPeakResidentBytes. Without a successful reset, PeakResidentBytes returns the maximum since the process
// began. PeakResidentBytes returns nullopt if the maximum cannot be read.
void ResetPeakResidentBytes();
std::optional<int64_t> PeakResidentBytes();

// Finds, in the file `path`, the first line that starts with `key`. Returns the rest of this line, without
// characters of `separators` at its ends. Returns an empty text if the file cannot be read, or if no line
// starts with `key`. For the line "MemAvailable: 23456 kB", the key "MemAvailable" and the separators ": kB",
// ReadEntry returns "23456".
std::string ReadEntry(const std::string& path, std::string_view key, const char* separators);

// Returns the NUMA node of the CPU on which the calling thread runs; empty if unknown.
std::string NumaNode();

// Returns the ids of the logical CPUs on which the calling thread may run, in ascending order; empty if
// unknown.
std::vector<int> AllowedCpus();

}  // namespace gradsync::bench
