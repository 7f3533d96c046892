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

// Returns the driver of an interface; empty if unknown.
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

std::string ReadInterfaceKind(const std::string& directory, std::string_view driver) {
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
  const comm::GroupFacts facts = group.facts();
  LinkFields link;
  link.Set("limit_bytes_per_second", Value(facts.limit_per_second));
  if (!facts.interface.empty()) {
    link.Set("kind", ReadInterfaceKind("/sys/class/net/" + facts.interface, DriverOf(facts.interface)));
    link.Set("interface", facts.interface);
  } else {
    link.Set("kind", group.size() == 1 ? "none" : facts.link);
  }
  return link;
}

}  // namespace gradsync::bench
