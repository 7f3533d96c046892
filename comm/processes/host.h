#pragma once

#include <string>

namespace gradsync::comm {

std::string HostName();

// Returns one word that identifies this boot of the kernel. It is equal for all processes on one kernel, also
// in different containers (namespaces).
std::string BootIdentity();

// Returns one word that is equal for processes that reach each other over loopback: boot and network
// namespace.
std::string HostIdentity();

}  // namespace gradsync::comm
