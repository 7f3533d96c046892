#pragma once

#include <string>

namespace gradsync::comm {

std::string HostName();

// Returns one word that identifies this boot of the kernel. It is equal for all processes on one kernel, also
// in different containers (namespaces).
std::string BootIdentity();

// Returns one word that identifies this boot of the kernel and this process's network namespace. It is equal
// for processes that reach each other over loopback.
std::string HostIdentity();

}  // namespace gradsync::comm
