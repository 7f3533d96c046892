#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/process_group.h"

namespace gradsync::bench {

// Describes the link between the ranks, for a record (bench/records/names.h).
LinkFields DescribeLink(const comm::ProcessGroup& group);

// Returns "loopback", "veth", "ethernet", "infiniband" or "other". `directory` is /sys/class/net/<name> of
// the interface.
std::string ReadInterfaceKind(const std::string& directory, std::string_view driver);

}  // namespace gradsync::bench
