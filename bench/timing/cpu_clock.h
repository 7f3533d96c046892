#pragma once

#include <cstdint>
#include <vector>

namespace gradsync::bench {

// Returns the ids that Linux gives to the threads of this process, in ascending order.
std::vector<int> ThreadIds();

// Returns the CPU time of all threads of this process, including threads that have ended, in ns.
int64_t ProcessCpuNs();

// The CPU time that this process has used until a call of CpuClock::Read, in ns; operator- returns the CPU
// time between two calls.
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
  // `others` is a list of thread ids in ascending order. The threads of this process that exist when the
  // constructor is called, and are not in `others`, are communication threads. So `others` should have the
  // threads that existed before the process groups started their threads. Threads in `others`, and threads
  // that start later, are compute threads.
  explicit CpuClock(const std::vector<int>& others);

  CpuTimes Read() const;

 private:
  std::vector<int> communication_threads_;
};

}  // namespace gradsync::bench
