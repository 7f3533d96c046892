#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/processes/host.h"
#include "model/device.h"

namespace gradsync::bench {

// Time of these CPUs ("cpu3") so far that was not idle, stolen time included, as /proc/stat tells it: in the
// system's ticks, of about 10 ms. Nullopt if it does not, or there are none.
std::optional<int64_t> BusyNs(std::istream& proc_stat, const std::set<std::string>& cpus);

// How much time of the CPUs that the job's ranks may use on this host others use while a step is taken. The
// first rank of each host reads what all have used, every rank what it used itself.
class Disturbance {
 public:
  // All ranks call. `cpus`: that this rank may use. `kernel` tells this rank's kernel, whose /proc/stat it
  // reads, from others: ranks in different network namespaces of one host share it.
  Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device, const std::vector<int>& cpus,
              const std::string& kernel = comm::BootIdentity());

  // Of this host, that any of its ranks may use.
  const std::set<std::string>& cpus() const { return cpus_; }

  // This rank's term: the sum of all ranks' of a host is what others have used there so far.
  int64_t NowNs();

  // What others used in each step, from how much this rank's term grew in it; empty if that is not known. All
  // ranks call, with as many.
  std::vector<int64_t> OthersNs(const std::vector<int64_t>& terms_ns);

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
  std::vector<size_t> ranks_here_;  // on this host
  std::set<std::string> cpus_;
  bool is_known_ = true;  // to the rank that reads what all have used
};

}  // namespace gradsync::bench
