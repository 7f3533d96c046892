#include "comm/shm/shm_mesh.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <thread>

#include "comm/process_group.h"
#include "comm/processes/random.h"
#include "comm/rendezvous/greeting.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

int64_t Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

// An address in the abstract namespace, which creates no file.
struct Address {
  explicit Address(const std::string& name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t length;
};

// Messages keep their boundaries and arrive whole.
FileDescriptor NewSocket() {
  FileDescriptor file(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!file.valid()) ThrowErrno("socket");
  return file;
}

bool IsOwnUser(const FileDescriptor& file) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(file.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

void CheckOneHost(const std::vector<std::string>& hosts) {
  const auto elsewhere = std::ranges::find_if(hosts, [&](const auto& host) { return host != hosts[0]; });
  Require(elsewhere == hosts.end(), "backend shm: ranks 0 and ", elsewhere - hosts.begin(),
          " are on different hosts, expected all ranks on one");
}

}  // namespace

FileDescriptor ConnectToListener(const std::string& name, Deadline deadline) {
  const Address address(name);
  FileDescriptor file = NewSocket();
  while (connect(file.get(), address.get(), address.length) != 0) {
    if (errno != EAGAIN && errno != EINTR) ThrowErrno("connect");
    if (Clock::now() >= deadline) throw std::system_error(ETIMEDOUT, std::generic_category(), "connect");
    std::this_thread::sleep_for(milliseconds(1));
  }
  return file;
}

ShmMesh::ShmMesh(const World& world, size_t area_bytes, milliseconds timeout, FirstCause& first_cause)
    : rank_(world.rank),
      size_(world.size),
      members_(world.members),
      timeout_(timeout),
      // With fewer CPUs than ranks, a spinning rank may keep the rank that it waits for from running.
      can_spin_(static_cast<unsigned>(size_) <= std::thread::hardware_concurrency()),
      sockets_(static_cast<size_t>(world.size)) {
  Rendezvous rendezvous(world, timeout);
  CheckOneHost(rendezvous.hosts());
  try {
    Connect(rendezvous, world.job_secret, Clock::now() + timeout);
    control_ = Share(kAreaOffset + area_bytes);
    Meet();
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::runtime_error& error) {
    first_cause.Write(error);
    throw CollectiveError(
        Join("rank ", NameOf(rank_), ": could not share memory with the other ranks: ", first_cause.Read()));
  }
}

PeerClosed ShmMesh::ClosedError(int rank) const {
  return {is_aborted_ ? kNobody : NameOf(rank), Join("rank ", NameOf(rank), " closed the connection")};
}

PeerError ShmMesh::TimeoutError(int rank) const {
  return {NameOf(rank), Join("rank ", NameOf(rank), " made no progress for ", Seconds(timeout_))};
}

void ShmMesh::Connect(Rendezvous& rendezvous, const std::string& secret, Deadline deadline) {
  const std::string name = "gradsync-" + RandomHex();
  const Address own(name);
  const FileDescriptor listener = NewSocket();
  if (bind(listener.get(), own.get(), own.length) != 0 || listen(listener.get(), size_) != 0) {
    ThrowErrno("listen");
  }
  const std::vector<std::string> names = rendezvous.Exchange({name});
  for (int peer = 0; peer < rank_; ++peer) {
    const std::string& theirs = names[static_cast<size_t>(peer)];
    FileDescriptor file;
    try {
      file = ConnectToListener(theirs, deadline);
    } catch (const std::system_error& error) {
      if (error.code().value() == ETIMEDOUT) throw TimeoutError(peer);
      if (error.code().value() != ECONNREFUSED) throw;
      throw ClosedError(peer);
    }
    const std::string greeting = MakeGreeting(secret, theirs, rank_);
    if (send(file.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) != std::ssize(greeting)) {
      throw ClosedError(peer);
    }
    sockets_[static_cast<size_t>(peer)] = std::move(file);
  }
  const int missing = AcceptRanks(
      listener, rank_, [&](int peer) { return MakeGreeting(secret, name, peer); }, &IsOwnUser, sockets_,
      deadline);
  if (missing < size_) throw TimeoutError(missing);
}

std::unique_ptr<SharedMemory> ShmMesh::Share(size_t bytes) {
  const Deadline deadline = Clock::now() + timeout_;
  FileDescriptor file;
  if (rank_ == 0) {
    file = MakeMemoryFile(SharedMemory::PartBytes(bytes) * static_cast<size_t>(size_));
    for (int peer = 1; peer < size_; ++peer) SendFile(peer, file, bytes, deadline);
  } else {
    file = ReceiveFile(0, bytes, deadline);
  }
  return std::make_unique<SharedMemory>(file, bytes, size_, rank_);
}

namespace {

// A message with one number and a descriptor.
struct FileMessage {
  explicit FileMessage(size_t& number) : part{.iov_base = &number, .iov_len = sizeof(number)} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }

  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

}  // namespace

void ShmMesh::SendFile(int rank, const FileDescriptor& file, size_t bytes, Deadline deadline) const {
  FileMessage message(bytes);
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  const FileDescriptor& socket = sockets_[static_cast<size_t>(rank)];
  if (!WaitFor(socket, POLLOUT, deadline)) throw TimeoutError(rank);
  if (sendmsg(socket.get(), &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EPIPE && errno != ECONNRESET) ThrowErrno("sending of shared memory");
    throw ClosedError(rank);
  }
}

FileDescriptor ShmMesh::ReceiveFile(int rank, size_t expected_bytes, Deadline deadline) const {
  size_t bytes = 0;
  FileMessage message(bytes);
  const FileDescriptor& socket = sockets_[static_cast<size_t>(rank)];
  if (!WaitFor(socket, POLLIN, deadline)) throw TimeoutError(rank);
  const ssize_t received = recvmsg(socket.get(), &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  // The system drops a descriptor if there is no room for it.
  if (received > 0 && (message.header.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    ThrowErrno("shared memory");
  }
  const cmsghdr* const control = received > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) throw ClosedError(rank);
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
  FileDescriptor file(fd);
  if (bytes != expected_bytes) {
    throw std::runtime_error(Join("rank ", NameOf(rank_), " allocates ", expected_bytes, " bytes where rank ",
                                  NameOf(rank), " allocates ", bytes));
  }
  return file;
}

void ShmMesh::Step() {
  Progress& own = progress(rank_);
  // The store is sequentially consistent with Sleep: either the sleeper sees the step, or this rank sees the
  // sleeper.
  own.steps.store(++steps_, std::memory_order_seq_cst);
  if (own.num_sleepers.load(std::memory_order_seq_cst) > 0) Futex(own.steps, FUTEX_WAKE, INT_MAX, nullptr);
}

bool ShmMesh::HasReached(int rank, uint32_t steps) const {
  return static_cast<int32_t>(progress(rank).steps.load(std::memory_order_acquire) - steps) >= 0;
}

void ShmMesh::WaitForAll() {
  const auto begin = Clock::now();
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    while (!HasReached(peer, steps_)) {
      const auto waited = Clock::now() - begin;
      if ((can_spin_ || yields_) && waited < spin_) {
        for (int k = 0; k < 32 && can_spin_ && !HasReached(peer, steps_); ++k) __builtin_ia32_pause();
        if (yields_ && !HasReached(peer, steps_)) sched_yield();
        continue;
      }
      ThrowIfGone(steps_);
      if (waited >= timeout_) throw TimeoutError(peer);
      Sleep(peer, std::min<nanoseconds>(look_every_, timeout_ - waited));
    }
  }
}

void ShmMesh::Sleep(int rank, nanoseconds at_most) const {
  Progress& other = progress(rank);
  other.num_sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = other.steps.load(std::memory_order_seq_cst);
  const timespec timeout{.tv_sec = at_most.count() / 1'000'000'000,
                         .tv_nsec = at_most.count() % 1'000'000'000};
  if (static_cast<int32_t>(seen - steps_) < 0) Futex(other.steps, FUTEX_WAIT, seen, &timeout);
  other.num_sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void ShmMesh::ThrowIfGone(uint32_t steps) const {
  std::vector<pollfd> polls;
  for (const FileDescriptor& socket : sockets_) {
    polls.push_back({.fd = socket.get(), .events = POLLRDHUP, .revents = 0});
  }
  if (poll(polls.data(), polls.size(), 0) <= 0) return;
  if (is_aborted_) throw PeerError(kNobody, "the connections were closed");
  for (int rank = 0; rank < size_; ++rank) {
    // A rank that left after this step has written all necessary data.
    if (polls[static_cast<size_t>(rank)].revents != 0 && !HasReached(rank, steps)) {
      throw ClosedError(rank);
    }
  }
}

void ShmMesh::Abort() noexcept {
  is_aborted_ = true;
  for (const FileDescriptor& socket : sockets_) {
    if (socket.valid()) shutdown(socket.get(), SHUT_RDWR);
  }
  for (int rank = 0; rank < size_; ++rank) Futex(progress(rank).steps, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace gradsync::comm
