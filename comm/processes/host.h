#pragma once

#include <string>

namespace gradsync::comm {

// Returns the result of gethostname.
std::string HostName();

// Returns one word that identifies this boot. Processes on one kernel have equal words, in all namespaces.
std::string BootIdentity();

// Returns one word that identifies this boot and network namespace. Processes that reach each other over
// loopback have equal words.
std::string HostIdentity();

}  // namespace gradsync::comm
