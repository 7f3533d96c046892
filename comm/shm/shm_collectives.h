#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/processes/shared_memory.h"
#include "comm/queue/chunks.h"
#include "comm/queue/request.h"
#include "comm/shm/shm_mesh.h"

namespace gradsync::comm {

// A table of one rank's shared buffers. A shared buffer is memory that all ranks have mapped, with one part
// for each rank. Thread-safe.
class SharedBuffers {
 public:
  // The place at which one rank's tensor begins in a shared buffer, which is memory that all ranks have
  // mapped.
  struct Location {
    int64_t buffer = 0;        // number of the buffer, from 1, equal on all ranks; 0: in no shared buffer
    int64_t offset_bytes = 0;  // offset from the start of the rank's part
  };

  explicit SharedBuffers(int rank) : rank_(rank) {}
  void Add(const SharedMemory* memory, size_t bytes);
  void Remove(const SharedMemory* memory);
  Location Find(const void* data) const;
  // Returns this process's address of a byte in the shared buffer with the number place.buffer. The byte is
  // at place.offset_bytes in the part of rank `rank`. The table must contain the buffer.
  std::byte* At(int rank, const Location& place) const;

 private:
  struct Buffer {
    int64_t number;
    size_t bytes;
    const SharedMemory* memory;
  };

  const int rank_;
  mutable std::mutex mutex_;
  int64_t num_buffers_ = 0;
  std::map<const std::byte*, Buffer> buffers_;  // buffers by the address of this rank's part
};

// Runs the collectives of one rank of the backend shm, one at a time.
//
// For each collective, every rank writes a notice to shared memory: a description of the collective. The
// ranks compare their notices, and exchange the inputs in one of three ways:
// - If all ranks' inputs are short, the ranks read them in the notices, into which each rank has copied its
//   input. The limit for a short input (IsShort) is at most 64 KiB, and lower with more ranks or in a shared
//   buffer.
// - If not all inputs are short, but all are in one shared buffer (SharedBuffers), the ranks read them there
//   without a copy.
// - Otherwise the inputs are copied in chunks through windows, which are buffers of 256 KiB in shared memory.
class ShmCollectives {
 public:
  // Returns the bytes of shared memory that each rank needs, which the caller passes to ShmMesh as
  // `area_bytes`.
  static size_t AreaBytes();

  ShmCollectives(ShmMesh& mesh, const SharedBuffers& buffers);

  // Writes this rank's notice: a description of `request`, and the input if the input is short. Returns true
  // if the notice contains the input, or if the collective moves no data. After Begin has returned true on
  // all ranks, Run on one rank does not wait for Run on other ranks.
  bool Begin(const Request& request);
  // Runs the collective `request`, and returns when this rank has its result. A call of Begin before Run is
  // optional. Throws PeerError if a single wait of Run for another rank takes longer than the timeout. Also
  // throws PeerError if Run waits for a rank that has ended or called ShmMesh::Abort. Throws
  // std::runtime_error if ranks issue different collectives.
  void Run(const Request& request);

 private:
  struct Notice;
  using Vectors = std::vector<std::byte*>;  // addresses of vectors, by rank

  bool IsShort(const Request& request, const SharedBuffers::Location& place) const;
  // Returns the notice (description of the current collective) that `rank` writes to shared memory.
  Notice& notice(int rank) const;
  std::byte* window(int rank, size_t chunk) const;
  void PublishNotice(const Request& request);
  void CheckSame() const;
  // PublishedInputs returns the addresses of the inputs in the ranks' notices, or nullopt if a notice has no
  // input. SharedInputs returns the addresses of the inputs in a shared buffer, or nullopt if not all inputs
  // are in the same one. Element r of either result is the address at which this process reads the input of
  // rank r.
  std::optional<Vectors> PublishedInputs() const;
  std::optional<Vectors> SharedInputs() const;

  void AllReduceInPlace(const Request& request, const Vectors& tensors) const;
  void AllReduceInChunks(const Request& request);
  void ReduceScatterInChunks(const Request& request);
  void CopyInChunks(const Request& request);
  template <class In, class Reduce, class Out>
  void InChunks(const Slices& chunks, const In& in, const Reduce& reduce, const Out& out);

  ShmMesh& mesh_;
  const SharedBuffers& buffers_;
  int64_t num_given_ = 0;   // number of notices written
  bool has_given_ = false;  // true if the notice of the next request is written
};

}  // namespace gradsync::comm
