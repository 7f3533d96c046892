#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Proves the identity of ranks on connections between them.
namespace gradsync::comm {

// Returns the first message of rank `from` to the listener with this name, which only ranks know. This
// message proves that the sender knows the job's secret, and fits into one packet. For ranks below ten all
// greetings have equal length.
std::string MakeGreeting(const std::string& secret, const std::string& name, int from);

// Accepts a connection from each rank above `rank` for which `sockets` (by rank) has no socket. The first
// message of rank r must be greeting(r). Other connections do not delay these connections. `admits` may
// reject a connection. Returns the first rank that has not connected by the deadline; the number of ranks if
// all ranks have connected. Throws std::system_error if descriptors run out.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm
