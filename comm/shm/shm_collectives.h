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

// A table of one rank's shared buffers, in which Find looks up the buffer that contains a tensor. A shared
// buffer is memory that all ranks have mapped, with a part for each rank. Thread-safe.
class SharedBuffers {
 public:
  // The shared buffer in which a tensor is, and where in a rank's part of the buffer the tensor begins. The
  // number `buffer` is 0 if the tensor is in no shared buffer.
  struct Location {
    int64_t buffer = 0;        // number of the buffer, counted from 1, equal on all ranks
    int64_t offset_bytes = 0;  // offset from the start of a rank's part
  };

  explicit SharedBuffers(int rank) : rank_(rank) {}
  void Add(const SharedMemory* memory, size_t bytes);
  void Remove(const SharedMemory* memory);
  Location Find(const void* data) const;
  // In the shared buffer with the number place.buffer, each rank has a part. Returns the address, in this
  // process, of the byte that is place.offset_bytes after the start of the part of `rank`. The buffer
  // place.buffer must still be in this table: added by Add, and not yet removed by Remove.
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

// Runs the collectives of one rank of the backend shm, one at a time, together with the other ranks' objects
// of this class.
//
// Each rank begins a collective by writing a notice to shared memory: a description of the collective. Each
// rank checks that the notices of all ranks describe the same collective; if not, Run throws
// std::runtime_error. Each rank has memory for two notices, and overwrites the older one only when all ranks
// have read it. The inputs are exchanged in one of three ways:
// - Each rank copies a short input into its notice (its description of the collective), and computes its own
//   output from the inputs in all notices. An input is short if the bytes of this rank's input or output,
//   whichever is larger, times the number of other ranks are at most 64 KiB, or 8 KiB if the input is in a
//   shared buffer.
// - Longer inputs that are all in the same shared buffer (SharedBuffers) are read in this buffer, without a
//   copy. In an all-reduce of such inputs, each rank reduces its slice of all inputs, in rank order, and
//   writes the result to the tensors of all ranks.
// - Inputs that are neither short nor in one shared buffer are copied, in chunks, through windows: buffers of
//   fixed size that all ranks have mapped.
class ShmCollectives {
 public:
  // Returns the number of bytes of shared memory that each rank needs for its notices (descriptions of
  // collectives) and windows (buffers for chunks of inputs). The caller passes this number to ShmMesh as
  // `area_bytes`.
  static size_t AreaBytes();

  ShmCollectives(ShmMesh& mesh, const SharedBuffers& buffers);

  // Writes this rank's notice to shared memory: the description of the collective `request`, and the input if
  // it is short. Returns true if this rank's notice contains its input, or if the collective moves no data.
  // If Begin returns true on all ranks, a call of Run on one rank does not wait for the calls of Run on the
  // other ranks.
  bool Begin(const Request& request);
  // Runs the collective `request`, and returns when this rank has its result. First writes this rank's notice
  // of `request`, unless a call of Begin has written it, and waits until all ranks have written their
  // notices. If any rank's input is too long for its notice, the ranks exchange their inputs after the
  // notices, and Run waits for the other ranks again. Throws PeerError if this rank has to wait for a rank
  // that has ended, or waits for another rank for longer than the timeout. Throws std::runtime_error if ranks
  // issue different collectives.
  void Run(const Request& request);

 private:
  struct Notice;
  using Vectors = std::vector<std::byte*>;  // addresses of vectors, by rank

  bool IsShort(const Request& request, const SharedBuffers::Location& place) const;
  // Returns the place in shared memory of the notice that `rank` writes for the current collective, which is
  // the collective for which the calling rank has last written its own notice.
  Notice& notice(int rank) const;
  std::byte* window(int rank, size_t chunk) const;
  void PublishNotice(const Request& request);
  void CheckSame() const;
  // PublishedInputs finds the ranks' inputs in their notices (descriptions of the collective, with short
  // inputs), and SharedInputs finds them in a shared buffer. Element r of the result is the address of rank
  // r's input. PublishedInputs returns nullopt if an input is not in its rank's notice. SharedInputs returns
  // nullopt if the inputs are not all in one shared buffer.
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
