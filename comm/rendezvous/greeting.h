#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Proofs of identity on connections between ranks.
namespace gradsync::comm {

// The first message of rank `from` to the listener with this name, which only ranks know. It proves that the
// sender knows the job's secret, and fits into one packet. For ranks below ten all greetings have equal
// length.
std::string Greeting(const std::string& secret, const std::string& name, int from);

// Accepts a connection from each rank above `rank` that `sockets` (by rank) lacks, and whose first message is
// greeting(that rank). Other connections do not delay it. `admits` may reject a connection. Returns the first
// rank that has not connected by the deadline; the number of ranks if all have. Throws std::system_error if
// descriptors run out.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm
