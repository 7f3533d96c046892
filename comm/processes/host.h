#ifndef GRADSYNC_COMM_PROCESSES_HOST_H_
#define GRADSYNC_COMM_PROCESSES_HOST_H_

#include <string>

namespace gradsync::comm {

// What gethostname says.
std::string HostName();

// One word, equal for processes on one kernel, in whatever namespaces: this boot.
std::string BootIdentity();

// One word, equal for processes that reach each other over loopback: this boot and the network namespace.
std::string HostIdentity();

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_HOST_H_
