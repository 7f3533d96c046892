#ifndef GRADSYNC_COMM_RENDEZVOUS_GREETING_H_
#define GRADSYNC_COMM_RENDEZVOUS_GREETING_H_

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// How ranks that connect to each other's sockets show who they are.
namespace gradsync::comm {

// What rank `from` sends to whoever has this name, which only ranks know. It proves that it knows the job's
// secret too, and fits any one packet. Of ranks below ten all are equally long.
std::string Greeting(const std::string& secret, const std::string& name, int from);

// Accepts a connection of each rank after `rank` that `sockets`, by rank, does not have yet, and whose first
// message is greeting(that rank). Anybody else may connect and say nothing, which holds nobody up. `admits`
// may turn away whom it does not like. Returns the first rank that has not come by the deadline; the number
// of ranks if all have. Throws std::system_error for a lack of descriptors.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_GREETING_H_
