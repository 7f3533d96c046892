#include "bench/launch/link.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "bench/records/host.h"
#include "comm/processes/file_descriptor.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

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

LinkFields DescribeLink(const comm::ProcessGroup& group) {
  LinkFields link;
  const std::string_view backend = group.backend();
  if (group.size() == 1 || backend == "local") {
    link.Set("kind", "none");
    return link;
  }
  link.Set("kind", backend == "shm" ? "memory" : "other");
  for (const auto& [name, value] : group.facts()) {
    if (name == "hosts" && value.starts_with("1 ")) link.Set("kind", "memory");
    if (name != "interface") continue;
    link.Set("kind", InterfaceKind("/sys/class/net/" + value, DriverOf(value)));
    link.Set("interface", value);
  }
  return link;
}

}  // namespace gradsync::bench
