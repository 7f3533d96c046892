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

// Returns the busy time of the CPUs `cpus` (names such as "cpu3") since boot, summed over the CPUs, in ns.
// Time in the states `idle` and `iowait` is not busy time; time in `steal` is. `proc_stat` is a stream of the
// text of /proc/stat. Returns nullopt if the text lacks one of the CPUs, or if the sum is 0.
std::optional<int64_t> ReadBusyNs(std::istream& proc_stat, const std::set<std::string>& cpus);

// Measures the CPU time that programs other than the ranks use in each step, on the CPUs of this host's
// ranks.
class Disturbance {
 public:
  // All ranks of `group` must call the constructor, which exchanges their `cpus` and `kernel`. `cpus` are the
  // numbers of the CPUs that this rank may use. `kernel` identifies the running Linux kernel; ranks with
  // equal `kernel` count as ranks of one host.
  Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device, const std::vector<int>& cpus,
              const std::string& kernel = comm::BootIdentity());

  // Returns the names, such as "cpu0", of all CPUs that at least one rank of this host may use.
  const std::set<std::string>& cpus() const { return cpus_; }

  // On the first rank of a host, returns the busy time of cpus() since boot minus this process's CPU time, in
  // ns. If /proc/stat cannot be read, the busy time counts as 0. On the host's other ranks, returns minus
  // this process's CPU time. If /proc/stat can be read, the sum over a host's ranks is the CPU time that
  // other programs have used on cpus() since boot.
  int64_t ReadNs();

  // Returns, for each step, the CPU time in ns that programs other than the ranks used on cpus(). `terms_ns`
  // has one number per step: this rank's ReadNs() after the step minus ReadNs() before the step. All ranks
  // must call GatherOthersNs, with `terms_ns` of equal length. Returns an empty vector on the ranks of a host
  // whose /proc/stat could not be read.
  std::vector<int64_t> GatherOthersNs(const std::vector<int64_t>& terms_ns);

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
  std::vector<size_t> ranks_here_;  // the numbers of the ranks on this host
  std::set<std::string> cpus_;
  bool is_known_ = true;  // false if this rank failed to read /proc/stat
};

}  // namespace gradsync::bench
