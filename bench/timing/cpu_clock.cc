#include "bench/timing/cpu_clock.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/numbers.h"

namespace gradsync::bench {
namespace {

int64_t Nanoseconds(clockid_t clock) {
  timespec time{};
  return clock_gettime(clock, &time) == 0 ? int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec : 0;
}

// Returns the kernel's clock of the CPU time of a thread. pthread_getcpuclockid computes this value from a
// pthread_t, which is unknown for threads that libraries started.
clockid_t ClockOf(int thread) {
  constexpr clockid_t kScheduled = 2, kPerThread = 4;
  return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3) | kScheduled | kPerThread;
}

}  // namespace

int64_t ProcessCpuNs() { return Nanoseconds(CLOCK_PROCESS_CPUTIME_ID); }

std::vector<int> ThreadIds() {
  std::vector<int> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    int id = 0;
    if (absl::SimpleAtoi(entry.path().filename().native(), &id)) ids.push_back(id);
  }
  std::ranges::sort(ids);
  return ids;
}

CpuClock::CpuClock(const std::vector<int>& others) {
  std::ranges::set_difference(ThreadIds(), others, std::back_inserter(communication_threads_));
}

CpuTimes CpuClock::Read() const {
  CpuTimes times;
  for (const int thread : communication_threads_) times.communication_ns += Nanoseconds(ClockOf(thread));
  times.compute_ns = ProcessCpuNs() - times.communication_ns;
  return times;
}

}  // namespace gradsync::bench
