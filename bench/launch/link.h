#ifndef GRADSYNC_BENCH_LAUNCH_LINK_H_
#define GRADSYNC_BENCH_LAUNCH_LINK_H_

#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/process_group.h"
#include "model/device.h"

namespace gradsync::bench {

// What there is between the ranks, for a record: "kind", "interface" and "rate_bits_per_second" as the group
// and the system tell them, and what a short probe measures: "latency_ns", "bandwidth_bytes_per_second" (see
// bench/records/schema.cc). All ranks call; takes a fraction of a second, more on a slow link.
Fields DescribeLink(comm::ProcessGroup& group, const model::DevicePtr& device);

// Of an interface, which `directory` describes as /sys/class/net/<name> does, and which has the driver
// `driver`: "loopback", "veth", "ethernet", "infiniband" or "other".
std::string InterfaceKind(const std::string& directory, std::string_view driver);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_LINK_H_
