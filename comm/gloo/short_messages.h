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

// Exchanges short messages between all ranks of a process group, over TCP connections of its own, without
// gloo. The thread that calls Exchange writes and reads the messages itself, so it does not need to wake
// another thread. Use ShortMessages only for collectives that run one at a time, in the order in which they
// were issued.
class ShortMessages {
 public:
  // A process group of more than kMaxRanks ranks does not use ShortMessages: it sends short messages, too,
  // over gloo's connections.
  static constexpr int kMaxRanks = 8;
  static constexpr size_t kMaxBytes = 4 << 10;

  // The constructor connects this rank to all other ranks. Each rank listens at an address of its host, and
  // publishes it at the rendezvous; `address` is this rank's address. Both sides of a connection prove, by an
  // HMAC keyed with the job's secret, that they belong to the job. Throws PeerError if a rank does not
  // connect within the timeout, closes its connection or gives a wrong proof; CollectiveError if the
  // rendezvous fails; std::runtime_error if this rank cannot listen or accept connections.
  ShortMessages(const World& world, const std::string& address, std::chrono::milliseconds timeout,
                Rendezvous& rendezvous);

  // Sends `bytes` bytes of `data` to all other ranks, and receives equally many bytes from each. `bytes` must
  // be at most kMaxBytes. Returns pointers to the data of all ranks, in rank order: `data` itself for this
  // rank, and for the others memory that is valid until the next call of Exchange. `slot` is a number that
  // identifies the collective; it is sent before the data. Throws PeerError if Exchange takes longer than the
  // timeout or if a rank closes its connection; std::runtime_error if another rank's slot differs from
  // `slot`.
  std::vector<std::byte*> Exchange(uint64_t slot, std::byte* data, size_t bytes);
  // Closes the connections. After a call of Abort on this rank, Exchange throws PeerError on this rank. On
  // another rank, Exchange throws PeerError if it still needs a message that this rank has not sent.
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
  // Reads 1 to `max_bytes` bytes from rank `peer` into `data`, and returns their number. Throws PeerError if
  // the connection is closed or if no byte arrives before `deadline`.
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
