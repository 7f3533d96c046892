#include "bench/launch/link.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "bench/records/host.h"
#include "bench/records/units.h"
#include "comm/processes/file_descriptor.h"
#include "model/tensor.h"

namespace gradsync::bench {
namespace {

using model::Tensor;

constexpr int kSmallOps = 50;
constexpr int kLargeOps = 4;
constexpr int64_t kLargeBytes = int64_t{8} << 20;
constexpr int64_t kBitsPerMbit = 1'000'000;

// The driver of an interface; empty if it does not say.
std::string DriverOf(const std::string& interface) {
  const comm::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  return ioctl(socket.get(), SIOCETHTOOL, &request) == 0 ? info.driver : "";
}

// Of each of `count` all-reduces, in ns, after one that does not count.
std::vector<int64_t> Durations(comm::ProcessGroup& group, const Tensor& tensor, int count) {
  std::vector<int64_t> durations_ns;
  group.Barrier();
  for (int i = 0; i <= count; ++i) {
    const int64_t begin_ns = comm::Now();
    group.AllReduce(tensor, comm::ReduceOp::kMax).Wait();
    tensor.device()->Synchronize();
    if (i > 0) durations_ns.push_back(comm::Now() - begin_ns);
  }
  std::ranges::sort(durations_ns);
  return durations_ns;
}

void Probe(comm::ProcessGroup& group, const model::DevicePtr& device, Fields& link) {
  const Tensor small = Tensor::Zeros(device, {2}, model::DType::kF32);
  link.Set("latency_ns", Durations(group, small, kSmallOps)[kSmallOps / 2]);
  const Tensor large = Tensor::Zeros(device, {kLargeBytes / 4}, model::DType::kF32);
  const auto fastest_ns = static_cast<double>(Durations(group, large, kLargeOps).front());
  const double share = 2.0 * (group.size() - 1) / group.size();  // of the buffer, over each rank's link
  link.Set("bandwidth_bytes_per_second",
           Value(share * static_cast<double>(kLargeBytes) / (fastest_ns * 1e-9)));
}

}  // namespace

std::string InterfaceKind(const std::string& directory, std::string_view driver) {
  switch (ParseInteger(ReadEntry(directory + "/type", "", "\n")).value_or(-1)) {
    case ARPHRD_LOOPBACK:
      return "loopback";
    case ARPHRD_INFINIBAND:
      return "infiniband";
    case ARPHRD_ETHER:
      return driver == "veth" ? "veth" : "ethernet";
    default:
      return "other";
  }
}

Fields DescribeLink(comm::ProcessGroup& group, const model::DevicePtr& device) {
  Fields link;
  const std::string_view backend = group.backend();
  if (group.size() == 1 || backend == "local") {
    link.Set("kind", "none");
    return link;
  }
  link.Set("kind", backend == "shm" || backend == "hierarchical" ? "memory" : "other");
  for (const auto& [name, interface] : group.facts()) {
    if (name != "interface") continue;
    const std::string directory = "/sys/class/net/" + interface;
    const std::string kind = InterfaceKind(directory, DriverOf(interface));
    link.Set("kind", kind);
    link.Set("interface", interface);
    const int64_t rate_mbit = ParseInteger(ReadEntry(directory + "/speed", "", "\n")).value_or(-1);
    // The speed of a veth pair is made up.
    if (rate_mbit > 0 && kind != "veth") link.Set("rate_bits_per_second", rate_mbit * kBitsPerMbit);
  }
  Probe(group, device, link);
  return link;
}

}  // namespace gradsync::bench
