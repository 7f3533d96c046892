#ifndef GRADSYNC_BENCH_RECORDS_HOST_H_
#define GRADSYNC_BENCH_RECORDS_HOST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The machine under a benchmark: its memory and its processors.
namespace gradsync::bench {

// How much memory can be used without swapping: MemAvailable of /proc/meminfo, or what the control group has
// left if that is less. Nullopt where neither can be read.
std::optional<int64_t> AvailableMemoryBytes();

// The first line of a file that starts with `key`, without it and without any of `separators` at either end;
// empty if there is none. "MemAvailable:  23456 kB" has the entry "23456" between separators ": kB".
std::string ReadEntry(const std::string& path, std::string_view key, const char* separators);

// The logical CPUs that the calling thread may run on, ascending.
std::vector<int> AllowedCpus();

// Which CPUs a rank's threads run on. Empty: wherever the system puts them.
struct Placement {
  std::vector<int> compute_cpus;
  std::vector<int> communication_cpus;
};

// Gives every rank of a host CPUs of its own for its compute threads, and spreads the CPUs that are left over
// the ranks for their communication threads. With fewer left than ranks, communication threads stay unpinned.
// Throws InvalidInput if there are fewer CPUs than compute threads.
Placement PlanPlacement(std::span<const int> cpus, int local_rank, int local_size, int threads_per_rank);

// Restricts the calling thread, and the threads that it starts from now on, to `cpus`. Throws
// std::system_error.
void RunOnCpus(std::span<const int> cpus);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_HOST_H_
