#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// Returns the greeting: the first message that rank `from` sends on a new connection to another rank. `name`
// is a text with a random part that the other rank has published for its listening socket. The greeting
// consists of an HMAC and of the number `from`. The HMAC is computed over `name` and `from`, and keyed with
// the ranks' `secret`. Only a process that knows both `secret` and `name` can compute the HMAC. A greeting
// has at most 75 bytes.
std::string MakeGreeting(const std::string& secret, const std::string& name, int from);

// Accepts connections at `listener` from the ranks above `rank`, and stores the socket of rank r in
// sockets[r]. `sockets` must have one element for each rank. AcceptRanks waits until each rank above `rank`
// has connected, but at most until `deadline`. AcceptRanks calls `admits` with the socket of each new
// connection, and closes the connection if `admits` returns false. AcceptRanks also closes a connection whose
// first data is not the whole greeting(r) of a rank r above `rank` that has not connected yet. A connection
// that sends nothing does not delay other connections. If 64 connections have sent nothing, AcceptRanks
// closes the oldest of these before it keeps another. AcceptRanks returns the lowest rank above `rank` that
// has not connected by the deadline. If all ranks above `rank` have connected, AcceptRanks returns the number
// of ranks. Throws std::system_error if file descriptors or memory run out.
int AcceptRanks(const FileDescriptor& listener, int rank, const std::function<std::string(int)>& greeting,
                const std::function<bool(const FileDescriptor&)>& admits,
                std::vector<FileDescriptor>& sockets, Deadline deadline);

}  // namespace gradsync::comm
