#ifndef GRADSYNC_BENCH_LAUNCH_LINK_H_
#define GRADSYNC_BENCH_LAUNCH_LINK_H_

#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/process_group.h"
#include "model/device.h"

namespace gradsync::bench {

// The link between the ranks, for a record: "kind", "interface" and "rate_bits_per_second" from the group and
// the system, "latency_ns" and "bandwidth_bytes_per_second" from a short probe (see bench/records/schema.cc).
// All ranks call it. Takes a fraction of a second, more on a slow link.
Fields DescribeLink(comm::ProcessGroup& group, const model::DevicePtr& device);

// "loopback", "veth", "ethernet", "infiniband" or "other". `directory`: the interface's, as
// /sys/class/net/<name>.
std::string InterfaceKind(const std::string& directory, std::string_view driver);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_LINK_H_
