#ifndef GRADSYNC_BENCH_TRAINING_DISTURBANCE_H_
#define GRADSYNC_BENCH_TRAINING_DISTURBANCE_H_

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "comm/processes/host.h"
#include "model/device.h"

namespace gradsync::bench {

// Processor time of this host so far that was not idle, stolen time included, as /proc/stat tells it: in the
// system's ticks, of about 10 ms. Nullopt if it does not.
std::optional<int64_t> HostBusyNs(std::istream& proc_stat);

// How much processor time others than the job's ranks use on this host while a step is taken. The first rank
// of each host reads what the host used, every rank what it used itself.
class Disturbance {
 public:
  // All ranks call. `kernel` tells this rank's kernel, whose /proc/stat it reads, from others: ranks in
  // different network namespaces of one host share it.
  Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device,
              const std::string& kernel = comm::BootIdentity());

  // This rank's term: the sum of all ranks' of a host is what others have used there so far.
  int64_t NowNs();

  // What others used in each step, from how much this rank's term grew in it; empty if that is not known. All
  // ranks call, with as many.
  std::vector<int64_t> OthersNs(const std::vector<int64_t>& terms_ns);

 private:
  comm::ProcessGroup& group_;
  const model::DevicePtr device_;
  std::vector<size_t> ranks_here_;  // on this host
  bool is_known_ = true;            // to the rank that reads what this host used
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_DISTURBANCE_H_
