#pragma once

#include <cstdint>
#include <vector>

namespace gradsync::bench {

// The threads of this process, by the system's numbers, ascending.
std::vector<int> ThreadIds();

// Processor time of all threads of this process, those that have ended included, in ns.
int64_t ProcessCpuNs();

// Processor time, in ns.
struct CpuTimes {
  int64_t compute_ns = 0;        // of all threads that are not for communication
  int64_t communication_ns = 0;  // of those that are, as long as they live

  CpuTimes operator-(const CpuTimes& before) const {
    return {compute_ns - before.compute_ns, communication_ns - before.communication_ns};
  }
};

// Reads the processor time of this process, which takes about a microsecond.
class CpuClock {
 public:
  // The communication threads are those that exist now, except `others` (ascending).
  explicit CpuClock(const std::vector<int>& others);

  CpuTimes Read() const;

 private:
  std::vector<int> communication_threads_;
};

}  // namespace gradsync::bench
