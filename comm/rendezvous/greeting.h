#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// Returns the greeting that rank `from` sends first on a new connection to a listening rank. It is an HMAC,
// keyed with the ranks' `secret`, over `from` and the listener's `name`, which only ranks can read; the
// number `from` follows it. The HMAC proves that the sender knows `secret` and `name`. A greeting is short
// enough for one network packet. The greetings of ranks 0 to 9 have equal length.
std::string MakeGreeting(const std::string& secret, const std::string& name, int from);

// Accepts connections at `listener` from the ranks above `rank`, and stores the socket of rank r in
// sockets[r]. Ends when each rank above `rank` has a valid socket in `sockets`, which must have one element
// for each rank. The first message of rank r must be greeting(r). Connections from other processes do not
// delay connections from the ranks. Closes a new connection for which `admits` returns false. Returns the
// lowest rank above `rank` that has not connected by the deadline; if all have connected, the number of
// ranks. Throws std::system_error if descriptors run out.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm
