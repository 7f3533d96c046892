#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// Returns the greeting that rank `from` sends first on a new connection to another rank; `name` is a text
// that identifies the other rank's socket. The greeting is an HMAC, keyed with the ranks' `secret`, over
// `name` and `from`, followed by the number `from`. The HMAC proves that the sender knows `secret` and
// `name`. A greeting is short enough for one network packet. The greetings of ranks whose numbers have
// equally many digits have equal lengths.
std::string MakeGreeting(const std::string& secret, const std::string& name, int from);

// Accepts connections at `listener` from the ranks above `rank`, and stores the socket of rank r in
// sockets[r]. Returns when each rank above `rank` has a valid socket in `sockets`, which must have one
// element for each rank, or at the deadline. Closes a connection whose first data is not greeting(r) of a
// rank r above `rank` that has not connected yet. A connection that sends nothing does not delay the others.
// Closes a new connection for which `admits` returns false. Returns the lowest rank above `rank` that has not
// connected by the deadline, or, if all have connected, the number of ranks. Throws std::system_error if file
// descriptors or memory run out.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm
