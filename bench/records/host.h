#ifndef GRADSYNC_BENCH_RECORDS_HOST_H_
#define GRADSYNC_BENCH_RECORDS_HOST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The machine under a benchmark: its memory and its processors.
namespace gradsync::bench {

// How much memory can be used without swapping: MemAvailable of /proc/meminfo, or what the control group has
// left if that is less. Nullopt where neither can be read.
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

// The logical CPUs that the calling thread may run on, ascending.
std::vector<int> AllowedCpus();

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_HOST_H_
