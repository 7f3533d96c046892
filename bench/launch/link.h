#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Returns, for a record, what connects the ranks: the name and kind of a network interface, or else "memory",
// "other" (unknown) or "none" (one rank). Also returns a bus bandwidth, in bytes per second, that is higher
// than any that the group can reach: a higher measured one must be wrong.
LinkFields DescribeLink(const comm::ProcessGroup& group);

// Returns the kind of a network interface: "loopback", "veth", "ethernet", "infiniband" or "other".
// `directory` is /sys/class/net/<name of the interface>, and `driver` is the name of the interface's driver
// in Linux.
std::string ReadInterfaceKind(const std::string& directory, std::string_view driver);

}  // namespace gradsync::bench
