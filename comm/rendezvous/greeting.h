#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// Returns the greeting that rank `from` sends first on a new connection: an HMAC, by which it proves that it
// knows the job's secret and the listener's `name`, which only ranks can read. A greeting fits into one
// packet. For ranks below ten all greetings have equal length.
std::string MakeGreeting(const std::string& secret, const std::string& name, int from);

// Accepts a connection from each rank above `rank` for which `sockets` (by rank) has no socket. The first
// message of rank r must be greeting(r). Connections of strangers do not delay these. A connection for which
// `admits` returns false is closed. Returns the first rank that has not connected by the deadline; the number
// of ranks if all have connected. Throws std::system_error if descriptors run out.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm
