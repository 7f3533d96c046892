#include "bench/training/disturbance.h"

#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "bench/launch/over_ranks.h"
#include "bench/timing/cpu_clock.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kNanoseconds = 1'000'000'000;

}  // namespace

std::optional<int64_t> HostBusyNs(std::istream& proc_stat) {
  std::string cpu;
  int64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, softirq = 0, stolen = 0;
  proc_stat >> cpu >> user >> nice >> system >> idle >> waiting >> irq >> softirq >> stolen;
  const int64_t ticks = user + nice + system + irq + softirq + stolen;
  if (!proc_stat || cpu != "cpu" || ticks == 0) return std::nullopt;
  return ticks * (kNanoseconds / sysconf(_SC_CLK_TCK));
}

Disturbance::Disturbance(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& kernel)
    : group_(group), device_(device) {
  const auto own = static_cast<int64_t>(std::hash<std::string>()(kernel));
  const std::vector<int64_t> hosts = GatherOverRanks(std::vector{own}, group, device);
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] == own) ranks_here_.push_back(rank);
  }
}

int64_t Disturbance::NowNs() {
  int64_t now_ns = -ProcessCpuNs();
  if (ranks_here_.front() == static_cast<size_t>(group_.rank())) {
    std::ifstream proc_stat("/proc/stat");
    const std::optional<int64_t> busy_ns = HostBusyNs(proc_stat);
    is_known_ = is_known_ && busy_ns.has_value();
    now_ns += busy_ns.value_or(0);
  }
  return now_ns;
}

std::vector<int64_t> Disturbance::OthersNs(const std::vector<int64_t>& terms_ns) {
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
