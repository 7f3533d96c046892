#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Returns what connects the ranks of the process group `group`, for the part `link` of a record: the name and
// kind of a network interface, or else "memory", "other" (unknown) or "none" (one rank). Also returns an
// upper limit of the bus bandwidth of `group`, in bytes per second. A measured bus bandwidth above the limit
// must be wrong.
LinkFields DescribeLink(const comm::ProcessGroup& group);

// Returns the kind of a network interface: "loopback", "veth", "ethernet", "infiniband" or "other".
// `directory` is /sys/class/net/<name of the interface>, and `driver` is the name of the interface's driver
// in Linux.
std::string ReadInterfaceKind(const std::string& directory, std::string_view driver);

}  // namespace gradsync::bench
