#include "bench/training/programs/disturbance.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <limits>

#include "bench/launch/over_ranks.h"
#include "bench/timing/cpu_clock.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;

}  // namespace

std::optional<int64_t> ReadBusyNs(std::istream& proc_stat, const std::set<std::string>& cpus) {
  int64_t ticks = 0;
  std::string cpu;
  for (size_t num_left = cpus.size(); num_left > 0 && proc_stat >> cpu;) {
    if (cpus.contains(cpu)) {
      int64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, softirq = 0, stolen = 0;
      proc_stat >> user >> nice >> system >> idle >> waiting >> irq >> softirq >> stolen;
      ticks += user + nice + system + irq + softirq + stolen;
      --num_left;
    }
    proc_stat.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (!proc_stat || ticks == 0) return std::nullopt;
  return ticks * (kNanoseconds / sysconf(_SC_CLK_TCK));
}

Disturbance::Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device,
                         const std::vector<int>& cpus, const std::string& kernel)
    : group_(group), device_(device) {
  // The identity of the kernel, and a 1 for each CPU that this rank may use.
  std::vector<int64_t> own(1 + CPU_SETSIZE);
  own[0] = static_cast<int64_t>(std::hash<std::string>()(kernel));
  for (const int cpu : cpus) own[1 + static_cast<size_t>(cpu)] = 1;
  const std::vector<int64_t> all = GatherOverRanks(own, group, device);
  for (size_t begin = 0; begin < all.size(); begin += own.size()) {
    if (all[begin] != own[0]) continue;
    ranks_here_.push_back(begin / own.size());
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (all[begin + 1 + cpu] == 1) cpus_.insert(Join("cpu", cpu));
    }
  }
}

int64_t Disturbance::ReadNs() {
  int64_t now_ns = -ProcessCpuNs();
  if (ranks_here_.front() == static_cast<size_t>(group_.rank())) {
    std::ifstream proc_stat("/proc/stat");
    const std::optional<int64_t> busy_ns = ReadBusyNs(proc_stat, cpus_);
    is_known_ = is_known_ && busy_ns.has_value();
    now_ns += busy_ns.value_or(0);
  }
  return now_ns;
}

std::vector<int64_t> Disturbance::GatherOthersNs(const std::vector<int64_t>& terms_ns) {
  std::vector<int64_t> own = terms_ns;
  own.push_back(is_known_ ? 1 : 0);
  const std::vector<int64_t> all = GatherOverRanks(own, group_, device_);
  std::vector<int64_t> sums(own.size());
  for (const size_t rank : ranks_here_) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += all[rank * own.size() + i];
  }
  const bool is_known = sums.back() == static_cast<int64_t>(ranks_here_.size());
  sums.pop_back();
  return is_known ? sums : std::vector<int64_t>();
}

}  // namespace gradsync::bench
