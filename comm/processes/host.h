#ifndef GRADSYNC_COMM_PROCESSES_HOST_H_
#define GRADSYNC_COMM_PROCESSES_HOST_H_

#include <string>

namespace gradsync::comm {

// This host's name, as the system has it.
std::string HostName();

// What tells this host from others, as far as loopback reaches: its boot and its network namespace. In one
// word.
std::string HostIdentity();

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_HOST_H_
