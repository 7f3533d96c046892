#pragma once

#include <cstdint>
#include <vector>

namespace gradsync::bench {

// Returns the ids that Linux gives to the threads of this process, in ascending order.
std::vector<int> ThreadIds();

// Returns the CPU time of all threads of this process, including threads that have ended, in ns.
int64_t ProcessCpuNs();

// The CPU time in ns that this process used before a call of CpuClock::Read. The difference of two CpuTimes
// is the CPU time between two calls of Read.
struct CpuTimes {
  int64_t compute_ns = 0;        // of compute threads, and of communication threads that have ended
  int64_t communication_ns = 0;  // of communication threads that still exist

  CpuTimes operator-(const CpuTimes& before) const {
    return {compute_ns - before.compute_ns, communication_ns - before.communication_ns};
  }
};

// Reads the CPU time of this process: that of its compute threads, and that of its communication threads.
class CpuClock {
 public:
  // `others` should have the ids, in ascending order, of the threads that existed before the process groups
  // started their communication threads. A thread that exists when the constructor is called, and is not in
  // `others`, counts as a communication thread. All remaining threads of this process count as compute
  // threads: those in `others`, and those that start later.
  explicit CpuClock(const std::vector<int>& others);

  CpuTimes Read() const;

 private:
  std::vector<int> communication_threads_;
};

}  // namespace gradsync::bench
