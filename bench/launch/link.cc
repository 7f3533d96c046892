#include "bench/launch/link.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

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

// A first line; empty if it cannot be read.
std::string ReadLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string NumericHost(const sockaddr& address) {
  std::array<char, 64> text{};
  const socklen_t length = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const bool ok = (address.sa_family == AF_INET || address.sa_family == AF_INET6) &&
                  getnameinfo(&address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return ok ? text.data() : "";
}

// The interface that has the address; empty if none has.
std::string InterfaceOf(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (; list != nullptr; list = list->ifa_next) {
    if (list->ifa_addr != nullptr && NumericHost(*list->ifa_addr) == address) return list->ifa_name;
  }
  return "";
}

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

// From which most connections of this process go out.
std::string MostUsedAddress() {
  std::map<std::string, int> count;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    sockaddr_storage own{}, peer{};
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    const int fd = static_cast<int>(ParseInteger(entry.path().filename().string()).value_or(-1));
    auto* const own_address = reinterpret_cast<sockaddr*>(&own);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
        getsockname(fd, own_address, &own_length) == 0) {
      if (const std::string host = NumericHost(*own_address); !host.empty()) ++count[host];
    }
  }
  const auto most = std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; });
  return most == count.end() ? "" : most->first;
}

std::string InterfaceInUse(const comm::World& world, const std::string& interface_or_address) {
  if (!interface_or_address.empty()) {
    const bool is_name = if_nametoindex(interface_or_address.c_str()) != 0;
    return is_name ? interface_or_address : InterfaceOf(interface_or_address);
  }
  // On one host the backend takes loopback.
  return InterfaceOf(world.local_size == world.size ? "127.0.0.1" : MostUsedAddress());
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
  switch (ParseInteger(ReadLine(directory + "/type")).value_or(-1)) {
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

Fields DescribeLink(comm::ProcessGroup& group, const model::DevicePtr& device, const comm::World& world,
                    const std::string& interface_or_address) {
  Fields link;
  const std::string_view backend = group.backend();
  if (world.size == 1 || backend == "local") {
    link.Set("kind", "none");
    return link;
  }
  if (backend == "gloo" || (backend == "hierarchical" && world.local_size < world.size)) {
    const std::string interface = InterfaceInUse(world, interface_or_address);
    const std::string directory = "/sys/class/net/" + interface;
    const std::string kind = interface.empty() ? "other" : InterfaceKind(directory, DriverOf(interface));
    link.Set("kind", kind);
    if (!interface.empty()) link.Set("interface", interface);
    const int64_t rate_mbit = ParseInteger(ReadLine(directory + "/speed")).value_or(-1);
    // What a pair says is made up.
    if (rate_mbit > 0 && kind != "veth") link.Set("rate_bits_per_second", rate_mbit * kBitsPerMbit);
  } else {
    link.Set("kind", backend == "nccl" ? "other" : "memory");
  }
  Probe(group, device, link);
  return link;
}

}  // namespace gradsync::bench
