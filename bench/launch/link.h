#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// The link between the ranks, for a record (see bench/records/names.h).
LinkFields DescribeLink(const comm::ProcessGroup& group);

// "loopback", "veth", "ethernet", "infiniband" or "other". `directory`: /sys/class/net/<name> of the
// interface.
std::string InterfaceKind(const std::string& directory, std::string_view driver);

}  // namespace gradsync::bench
