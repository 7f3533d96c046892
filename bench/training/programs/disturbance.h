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

// Returns how many ns `cpus` (names such as "cpu3") have been busy since the system's start. The result is
// the sum over these CPUs, including time that a hypervisor gave to other virtual machines. `proc_stat` is
// the text of /proc/stat, which counts in ticks, mostly of 10 ms. Returns nullopt if the text lacks one of
// the CPUs, if the CPUs were never busy, or if `cpus` is empty.
std::optional<int64_t> ReadBusyNs(std::istream& proc_stat, const std::set<std::string>& cpus);

// Measures how much CPU time other programs use during a step, on the CPUs of this host's ranks. The first
// rank of each host reads the CPU time of all programs on these CPUs. From this CPU time of all programs, the
// class subtracts the CPU time that the processes of this host's ranks used.
class Disturbance {
 public:
  // All ranks of `group` must call the constructor together, because the constructor exchanges the ranks'
  // `cpus` and `kernel`. `cpus` are the numbers of the CPUs that this rank may use. `kernel` is a text that
  // identifies the running Linux kernel of this rank's host. Ranks with equal `kernel` read the same
  // /proc/stat, so they count as ranks of one host.
  Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device, const std::vector<int>& cpus,
              const std::string& kernel = comm::BootIdentity());

  // Returns the names, as in /proc/stat ("cpu0"), of all CPUs that at least one rank of this host may use.
  const std::set<std::string>& cpus() const { return cpus_; }

  // The sum of ReadNs() over a host's ranks is the CPU time in ns that programs other than the ranks have
  // used on cpus(). Each rank's ReadNs() subtracts the CPU time of the rank's own process. Only the first
  // rank of each host adds the CPU time that all programs have used on cpus() since the system's start.
  int64_t ReadNs();

  // Returns the CPU time in ns that other programs used on this host's cpus() in each step. Returns an empty
  // vector if /proc/stat could not be read. `terms_ns` has, for each step, this rank's ReadNs() after the
  // step minus its ReadNs() before the step. GatherOthersNs adds up these differences over the ranks of this
  // host. All ranks must call GatherOthersNs, with `terms_ns` of equal length, because it is a collective.
  std::vector<int64_t> GatherOthersNs(const std::vector<int64_t>& terms_ns);

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
  std::vector<size_t> ranks_here_;  // the ranks on this host
  std::set<std::string> cpus_;
  bool is_known_ = true;  // false if the rank that reads /proc/stat cannot read it
};

}  // namespace gradsync::bench
