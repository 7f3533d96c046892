#pragma once

#include <string>

namespace gradsync::comm {

std::string HostName();

// Returns one word that identifies this boot of the kernel: the kernel's boot_id, or, if /proc lacks it, the
// host's name. The boot_id is equal for all processes that run on one kernel, also in different containers.
std::string BootIdentity();

// Returns one word that identifies this boot of the kernel (BootIdentity) and this process's network
// namespace. Without /proc, HostIdentity returns only the host's name. With /proc, two processes have equal
// words if and only if they run on one kernel and in one network namespace.
std::string HostIdentity();

}  // namespace gradsync::comm
