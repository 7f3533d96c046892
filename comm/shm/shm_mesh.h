#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"
#include "comm/processes/shared_memory.h"
#include "comm/queue/first_cause.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// Connects to the listening Unix socket `name` in the abstract namespace. Waits while the listener's queue of
// connections that it has not yet accepted is full. Throws std::system_error if the connection fails, with
// ETIMEDOUT if the queue stays full until the deadline.
FileDescriptor ConnectToListener(const std::string& name, Deadline deadline);

// Synchronises the ranks of one host through memory that all ranks have mapped. Each rank has a step counter
// in this memory: it counts the rank's calls of Step, not steps of training.
//
// Each pair of ranks is also connected by a Unix socket. Over these sockets rank 0 sends the other ranks the
// file descriptors of shared memory. The system closes a process's sockets when the process ends for any
// reason, so the other ranks notice the end.
class ShmMesh {
 public:
  // The constructor allocates `area_bytes` bytes of zeroed shared memory for every rank; area(r) points to
  // those of rank r. The constructor returns when all ranks have mapped the memory of all ranks. Throws
  // CollectiveError if ranks are missing or memory cannot be shared. Throws InvalidInput if the ranks are on
  // several hosts. If world.job is null, also throws InvalidInput if world.rendezvous is neither
  // file:///directory nor tcp://host:port.
  ShmMesh(const World& world, size_t area_bytes, std::chrono::milliseconds timeout, FirstCause& first_cause);
  ShmMesh(const ShmMesh&) = delete;
  ShmMesh& operator=(const ShmMesh&) = delete;

  int rank() const { return rank_; }
  // Returns the number by which error messages name `rank`: its rank in the whole job.
  int NameOf(int rank) const { return MemberName(members_, rank); }
  int size() const { return size_; }
  std::byte* area(int rank) const { return control_->part(rank) + kAreaOffset; }

  // Adds 1 to this rank's step counter. A rank that has waited for this call of Step (WaitForAll) sees what
  // this rank wrote to shared memory before the call.
  void Step();
  // Sets how long WaitForAll spins before it sleeps, and whether it yields its CPU while it spins, so that
  // the rank for which it waits may run on this CPU. With fewer CPUs than ranks, WaitForAll spins only if
  // `yields` is true.
  void set_spin(std::chrono::nanoseconds spin, bool yields) {
    spin_ = spin;
    yields_ = yields;
  }
  // Sets the longest time that a rank sleeps in WaitForAll before it checks again whether another rank has
  // ended.
  void set_look_every(std::chrono::nanoseconds period) { look_every_ = period; }
  // Waits until the step counter (number of calls of Step) of every rank is at least as high as this rank's.
  // Throws PeerError if another rank ends or calls Abort before that other rank's counter has reached this
  // rank's, or if that counter has not reached this rank's within the timeout. The PeerError names the other
  // rank, or no rank if this rank has called Abort.
  void WaitForAll();
  void Meet() {
    Step();
    WaitForAll();
  }

  // Makes new shared memory, in which each rank has a part of at least `bytes`. All ranks must call Share in
  // the same order with equal `bytes`. A rank must not call Share on two threads at once, but the rank's
  // collectives may run while Share runs. Rank 0 makes the memory and sends its file descriptor to the other
  // ranks. Throws PeerError on rank 0 if another rank has ended, has called Abort, or leaves its socket full
  // for the timeout. Throws PeerError on another rank if rank 0 has ended or called Abort, or sends no file
  // descriptor within the timeout. Throws std::runtime_error on a rank whose `bytes` differ from rank 0's, or
  // if the system refuses memory.
  std::unique_ptr<SharedMemory> Share(size_t bytes);

  // After a call of Abort on this rank, WaitForAll on this rank throws PeerError instead of waiting for
  // another rank. On another rank, WaitForAll throws PeerError when it waits for a call of Step that this
  // rank has not made.
  void Abort() noexcept;

 private:
  // One rank's step counter, which counts the rank's calls of Step, and the number of ranks that sleep until
  // it changes.
  struct Progress {
    std::atomic<uint32_t> steps;
    std::atomic<uint32_t> num_sleepers;  // number of ranks that Step must wake
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
  static constexpr size_t kAreaOffset = 4096;

  PeerClosed ClosedError(int rank) const;
  PeerError TimeoutError(int rank) const;
  void Connect(Rendezvous& rendezvous, const std::string& secret, Deadline deadline);
  Progress& progress(int rank) const { return *reinterpret_cast<Progress*>(control_->part(rank)); }
  bool HasReached(int rank, uint32_t steps) const;
  // Sleeps until `rank` calls Step again, any rank calls Abort, or `at_most` has passed. Returns immediately
  // if the step counter of `rank` is already at least as high as the calling rank's counter.
  void Sleep(int rank, std::chrono::nanoseconds at_most) const;
  // Throws PeerError if this rank has called Abort. Also throws PeerError if another rank has ended or called
  // Abort, and the step counter of that other rank (its calls of Step) has not reached `steps`.
  void ThrowIfGone(uint32_t steps) const;
  void SendFile(int rank, const FileDescriptor& file, size_t bytes, Deadline deadline) const;
  FileDescriptor ReceiveFile(int rank, size_t expected_bytes, Deadline deadline) const;

  const int rank_;
  const int size_;
  const std::vector<int> members_;  // see World::members
  const std::chrono::milliseconds timeout_;
  const bool can_spin_;
  std::chrono::nanoseconds spin_{0};
  bool yields_ = false;
  std::chrono::nanoseconds look_every_ = std::chrono::milliseconds(50);
  std::vector<FileDescriptor> sockets_;  // sockets by rank; this rank has no socket
  std::unique_ptr<SharedMemory> control_;
  uint32_t steps_ = 0;  // number of steps of this rank; wraps around
  std::atomic<bool> is_aborted_{false};
};

}  // namespace gradsync::comm
