#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/processes/host.h"
#include "model/tensor/device.h"

namespace gradsync::bench {

// Returns the time in ns during which these CPUs ("cpu3") were not idle so far, including stolen time, from
// /proc/stat. The system counts ticks of about 10 ms. Nullopt if /proc/stat lacks the CPUs, or if `cpus` is
// empty.
std::optional<int64_t> ReadBusyNs(std::istream& proc_stat, const std::set<std::string>& cpus);

// Measures the CPU time that programs other than the job's ranks use during a step, on the CPUs that the
// ranks of this host may use. The first rank of each host reads the time that all programs have used, and
// every rank reads the time of its own process.
class Disturbance {
 public:
  // All ranks must call the constructor. `cpus` are the CPUs that this rank may use. `kernel` identifies the
  // kernel whose /proc/stat this rank reads; ranks in different network namespaces of one machine have equal
  // values.
  Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device, const std::vector<int>& cpus,
              const std::string& kernel = comm::BootIdentity());

  // Returns the CPUs of this host that any of its ranks may use.
  const std::set<std::string>& cpus() const { return cpus_; }

  // Returns this rank's term. The sum of the terms of all ranks of a host is the time that other programs
  // have used so far.
  int64_t ReadNs();

  // Returns the time that other programs used in each step. `terms_ns` has the growth of this rank's term in
  // each step. Empty if the time is not known. All ranks must call this with equally many steps.
  std::vector<int64_t> GatherOthersNs(const std::vector<int64_t>& terms_ns);

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
  std::vector<size_t> ranks_here_;  // the ranks on this host
  std::set<std::string> cpus_;
  bool is_known_ = true;  // false if the rank that reads /proc/stat cannot read it
};

}  // namespace gradsync::bench
