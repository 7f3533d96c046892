#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"
#include "comm/queue/first_cause.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// Exchanges short messages between all ranks, over separate sockets without gloo. The thread that calls
// Exchange writes and reads the messages itself, so no other thread must be woken. Only for collectives that
// run one at a time, in the order in which they were issued.
class ShortMessages {
 public:
  // The maximum number of ranks. With more ranks there would be too many connections, and algorithms of
  // several steps, in which a rank sends fewer messages, are faster.
  static constexpr int kMaxRanks = 8;
  static constexpr size_t kMaxBytes = 4 << 10;

  // Connects to all ranks. Each rank listens at an address of its host; `address` is that of this rank. Both
  // sides of a connection prove that they know the job's secret, and data that only ranks can read at the
  // rendezvous. Throws PeerError, CollectiveError, std::runtime_error.
  ShortMessages(const World& world, const std::string& address, std::chrono::milliseconds timeout,
                Rendezvous& rendezvous);

  // Sends `data` to all other ranks, and returns the data of each rank, in rank order, valid until the next
  // call. `slot` identifies the collective. Throws PeerError; std::runtime_error if another rank sends
  // another slot.
  std::vector<std::byte*> Exchange(uint64_t slot, std::byte* data, size_t bytes);
  // Closes the connections. From then on every Exchange throws PeerError, here and on the other ranks.
  void Abort() noexcept;

 private:
  struct Message {
    uint64_t slot = 0;
    std::array<std::byte, kMaxBytes> data{};
  };

  int name(int peer) const { return MemberName(members_, peer); }
  PeerClosed ClosedError(int peer) const;
  PeerError TimeoutError(int peer) const;
  void Write(int peer, const void* data, size_t bytes, Deadline deadline) const;
  // Reads at least 1 and at most `max_bytes` bytes. Returns the number of bytes.
  size_t Read(int peer, void* data, size_t max_bytes, Deadline deadline) const;

  const std::vector<int> members_;  // see World
  const int rank_;
  const std::chrono::milliseconds timeout_;
  std::vector<FileDescriptor> sockets_;  // sockets by rank; this rank has no socket
  Message sent_;
  std::vector<Message> received_;  // the received message of each rank
  std::atomic<bool> is_aborted_ = false;
};

}  // namespace gradsync::comm
