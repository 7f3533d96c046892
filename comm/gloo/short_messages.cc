#include "comm/gloo/short_messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

#include "absl/strings/str_split.h"
#include "comm/process_group.h"
#include "comm/processes/random.h"
#include "comm/queue/chunks.h"
#include "comm/rendezvous/greeting.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "model/base/error.h"

namespace gradsync::comm {

using Clock = std::chrono::steady_clock;

ShortMessages::ShortMessages(const World& world, const std::string& address,
                             std::chrono::milliseconds timeout, Rendezvous& rendezvous)
    : members_(world.members),
      rank_(world.rank),
      timeout_(timeout),
      sockets_(static_cast<size_t>(world.size)),
      received_(sockets_.size()) {
  const Deadline deadline = Clock::now() + timeout;
  const auto listeners = Listen({.host = address, .port = "0"}, deadline, [] {});
  const std::vector<std::string> names =
      rendezvous.Exchange({Join(PortOf(listeners[0]), " ", address, " ", RandomHex())});
  // The greeting from `from` to `to`.
  const auto greeting = [&](int from, int to) {
    return MakeGreeting(world.job_secret, names[static_cast<size_t>(to)], from);
  };
  for (int peer = 0; peer < rank_; ++peer) {
    const std::vector<std::string> place = absl::StrSplit(names[static_cast<size_t>(peer)], ' ');
    try {
      sockets_[static_cast<size_t>(peer)] = Connect({.host = place.at(1), .port = place.at(0)}, deadline);
    } catch (const std::runtime_error&) {
      throw Clock::now() < deadline ? ClosedError(peer) : TimeoutError(peer);
    }
    const std::string own = greeting(rank_, peer);
    Write(peer, own.data(), own.size(), deadline);
  }
  const int missing = AcceptRanks(
      listeners[0], rank_, [&](int peer) { return greeting(peer, rank_); },
      [](const FileDescriptor&) { return true; }, sockets_, deadline);
  if (missing < world.size) throw TimeoutError(missing);
  for (int peer = rank_ + 1; peer < world.size; ++peer) {
    SendAtOnce(sockets_[static_cast<size_t>(peer)]);
    const std::string own = greeting(rank_, peer);
    Write(peer, own.data(), own.size(), deadline);
  }
  for (int peer = 0; peer < rank_; ++peer) {
    const std::string expected = greeting(peer, rank_);
    std::string text = expected;
    for (size_t done = 0; done < text.size();)
      done += Read(peer, text.data() + done, text.size() - done, deadline);
    if (!IsSameMac(text, expected))
      throw PeerError(kNobody, Join("whoever listens as rank ", name(peer), " is not of this job"));
  }
}

std::vector<std::byte*> ShortMessages::Exchange(uint64_t slot, std::byte* data, size_t bytes) {
  const Deadline deadline = Clock::now() + timeout_;
  const int size = static_cast<int>(sockets_.size());
  sent_.slot = slot;
  CopyBytes(sent_.data.data(), data, bytes);
  for (int i = 1; i < size; ++i) Write((rank_ + i) % size, &sent_, sizeof(slot) + bytes, deadline);
  std::vector<std::byte*> all(sockets_.size(), data);
  for (int i = 1; i < size; ++i) {
    const int peer = (rank_ + i) % size;
    Message& message = received_[static_cast<size_t>(peer)];
    for (size_t done = 0; done < sizeof(slot) + bytes;) {
      done +=
          Read(peer, reinterpret_cast<std::byte*>(&message) + done, sizeof(slot) + bytes - done, deadline);
      if (done >= sizeof(slot) && message.slot != slot)
        throw std::runtime_error(Join("rank ", name(peer), " is in another collective"));
    }
    all[static_cast<size_t>(peer)] = message.data.data();
  }
  return all;
}

PeerClosed ShortMessages::ClosedError(int peer) const {
  return {is_aborted_ ? kNobody : name(peer), Join("rank ", name(peer), " closed the connection")};
}

PeerError ShortMessages::TimeoutError(int peer) const {
  return {name(peer), Join("rank ", name(peer), " made no progress for ", Seconds(timeout_),
                           ", or issues different collectives")};
}

void ShortMessages::Write(int peer, const void* data, size_t bytes, Deadline deadline) const {
  const FileDescriptor& socket = sockets_[static_cast<size_t>(peer)];
  for (size_t done = 0; done < bytes;) {
    const ssize_t sent =
        send(socket.get(), static_cast<const std::byte*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
    } else if (errno != EAGAIN && errno != EINTR) {
      throw ClosedError(peer);
    } else if (!WaitFor(socket, POLLOUT, deadline)) {
      throw TimeoutError(peer);
    }
  }
}

size_t ShortMessages::Read(int peer, void* data, size_t max_bytes, Deadline deadline) const {
  const FileDescriptor& socket = sockets_[static_cast<size_t>(peer)];
  for (;;) {
    const ssize_t received = recv(socket.get(), data, max_bytes, 0);
    if (received > 0) return static_cast<size_t>(received);
    if (received == 0 || (errno != EAGAIN && errno != EINTR)) throw ClosedError(peer);
    if (!WaitFor(socket, POLLIN, deadline)) throw TimeoutError(peer);
  }
}

void ShortMessages::Abort() noexcept {
  is_aborted_ = true;
  for (const FileDescriptor& socket : sockets_) {
    if (socket.valid()) shutdown(socket.get(), SHUT_RDWR);
  }
}

}  // namespace gradsync::comm
