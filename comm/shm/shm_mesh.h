#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"
#include "comm/queue/first_cause.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/rendezvous/world.h"
#include "comm/shm/shared_memory.h"

namespace gradsync::comm {

// Connects to a listening socket in the abstract namespace. Waits while its queue is full. Throws
// std::system_error, ETIMEDOUT if it is full until the deadline.
FileDescriptor ConnectToListener(const std::string& name, Deadline deadline);

// The ranks of one host: memory that all have mapped, and a step counter for each rank, which the others
// read.
//
// Each pair of ranks also has a socket. It carries the descriptors of shared memory. The system closes it
// when a process dies for any reason.
class ShmMesh {
 public:
  // Gives every rank `area_bytes` of zeroed memory that all ranks see. Returns when all have mapped it.
  // Throws CollectiveError, with the first cause; InvalidInput if the ranks are not all on one host.
  ShmMesh(const World& world, size_t area_bytes, std::chrono::milliseconds timeout, FirstCause& first_cause);
  ShmMesh(const ShmMesh&) = delete;
  ShmMesh& operator=(const ShmMesh&) = delete;

  int rank() const { return rank_; }
  // The rank's number in messages.
  int NameOf(int rank) const { return MemberName(members_, rank); }
  int size() const { return size_; }
  std::byte* area(int rank) const { return control_->part(rank) + kAreaOffset; }

  // Counts one step. After waiting for it, other ranks see everything that this rank wrote before it.
  void Step();
  // How long WaitForAll spins before it sleeps, and whether it yields to other threads meanwhile (one may be
  // the rank that it waits for). If there are fewer CPUs than ranks, it spins only if it yields.
  void set_spin(std::chrono::nanoseconds spin, bool yields) {
    spin_ = spin;
    yields_ = yields;
  }
  // How often a sleeping rank checks that the others live.
  void set_look_every(std::chrono::nanoseconds period) { look_every_ = period; }
  // Returns when all ranks have made the number of steps of this one. Throws PeerError, which names a rank
  // that is gone, or has made no step within the timeout.
  void WaitForAll();
  void Meet() {
    Step();
    WaitForAll();
  }

  // New memory; each rank has a part with room for `bytes`. Every rank calls this with equal bytes, in one
  // order, and from one thread; collectives may run meanwhile. Throws PeerError, std::runtime_error.
  std::unique_ptr<SharedMemory> Share(size_t bytes);

  // Makes every wait throw PeerError, here and on the other ranks.
  void Abort() noexcept;

 private:
  // At the start of a rank's part, on a separate cache line.
  struct Progress {
    std::atomic<uint32_t> steps;
    std::atomic<uint32_t> num_sleepers;  // ranks that must be woken
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
  static constexpr size_t kAreaOffset = 4096;

  PeerClosed ClosedError(int rank) const;
  PeerError TimeoutError(int rank) const;
  void Connect(Rendezvous& rendezvous, const std::string& secret, Deadline deadline);
  Progress& progress(int rank) const { return *reinterpret_cast<Progress*>(control_->part(rank)); }
  bool HasReached(int rank, uint32_t steps) const;
  // Returns when the rank has made another step or aborted, or after `at_most`.
  void Sleep(int rank, std::chrono::nanoseconds at_most) const;
  // Throws PeerError if a rank with fewer steps is gone.
  void ThrowIfGone(uint32_t steps) const;
  void SendFile(int rank, const FileDescriptor& file, size_t bytes, Deadline deadline) const;
  FileDescriptor ReceiveFile(int rank, size_t expected_bytes, Deadline deadline) const;

  const int rank_;
  const int size_;
  const std::vector<int> members_;  // see World
  const std::chrono::milliseconds timeout_;
  const bool can_spin_;
  std::chrono::nanoseconds spin_{0};
  bool yields_ = false;
  std::chrono::nanoseconds look_every_ = std::chrono::milliseconds(50);
  std::vector<FileDescriptor> sockets_;  // by rank; none to this one
  std::unique_ptr<SharedMemory> control_;
  uint32_t steps_ = 0;  // wraps around
  std::atomic<bool> is_aborted_{false};
};

}  // namespace gradsync::comm
