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

// Returns how many ns `cpus` (names such as "cpu3") have been busy since the system's start. It is the sum
// over these CPUs, including time that a hypervisor gave to other virtual machines. `proc_stat` is the text
// of /proc/stat, which counts in ticks, mostly of 10 ms. Returns nullopt if the text lacks one of the CPUs,
// if the CPUs were never busy, or if `cpus` is empty.
std::optional<int64_t> ReadBusyNs(std::istream& proc_stat, const std::set<std::string>& cpus);

// Measures how much CPU time other programs use during a step, on the CPUs of this host's ranks. The first
// rank of each host reads the CPU time of all programs on these CPUs, from which the CPU time of the ranks'
// processes is subtracted.
class Disturbance {
 public:
  // All ranks must call the constructor. `cpus` are the numbers of the CPUs that this rank may use. `kernel`
  // identifies the kernel on which this rank runs. Ranks with equal `kernel` read the same /proc/stat, so
  // they count as ranks of one host.
  Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device, const std::vector<int>& cpus,
              const std::string& kernel = comm::BootIdentity());

  // Returns the names, as in /proc/stat ("cpu0"), of all CPUs that at least one rank of this host may use.
  const std::set<std::string>& cpus() const { return cpus_; }

  // Returns this rank's term of a sum, in ns. The term is the CPU time of this process with a minus sign; the
  // first rank of a host adds to it the time that cpus() have been busy. The sum over all ranks of a host is
  // the CPU time that other programs have used on cpus() since the system's start.
  int64_t ReadNs();

  // Returns the CPU time in ns that other programs used on this host's cpus() in each step. Returns an empty
  // vector if /proc/stat could not be read. `terms_ns` has, for each step, by how much the result of ReadNs
  // grew on this rank. All ranks must call this, with terms of equally many steps.
  std::vector<int64_t> GatherOthersNs(const std::vector<int64_t>& terms_ns);

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
  std::vector<size_t> ranks_here_;  // the ranks on this host
  std::set<std::string> cpus_;
  bool is_known_ = true;  // false if the rank that reads /proc/stat cannot read it
};

}  // namespace gradsync::bench
