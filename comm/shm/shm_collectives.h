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

// Finds tensors in shared buffers: memory with a part for each rank, mapped by all ranks. Thread-safe.
class SharedBuffers {
 public:
  // Where a tensor is in a shared buffer. `buffer` is 0 if the tensor is in no buffer.
  struct Location {
    int64_t buffer = 0;        // number of the buffer, counted from 1, equal on all ranks
    int64_t offset_bytes = 0;  // offset from the start of a rank's part
  };

  explicit SharedBuffers(int rank) : rank_(rank) {}
  void Add(const SharedMemory* memory, size_t bytes);
  void Remove(const SharedMemory* memory);
  Location Find(const void* data) const;
  // Returns the address of `place` in the part of `rank`. Call this only for a buffer that has been added and
  // not removed.
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

// Runs the collectives of one rank, one at a time.
//
// Each rank begins a collective with a notice: a description of the collective in shared memory. Each rank
// compares the notices of all ranks with that of rank 0, so ranks that issue different collectives fail. Each
// rank has memory for two notices: it writes its next notice after it has read all ranks' previous notices,
// so it overwrites only a notice that all ranks have read. The inputs are exchanged in one of three ways:
// - Short inputs are part of the notices, and each rank computes its own output from all inputs. An input is
//   short if the inputs of all other ranks together, or their outputs if these are larger, have at most 64
//   KiB, or 8 KiB if the input is in a shared buffer.
// - Longer inputs that are all in one shared buffer are read in place. In an all-reduce each rank reduces its
//   slice of all inputs, in rank order, and writes the result to the tensors of all ranks.
// - Other inputs are copied, in chunks, through windows: buffers of fixed size that all ranks have mapped.
class ShmCollectives {
 public:
  // Returns the number of bytes of shared memory that each rank needs for its notices and windows.
  static size_t AreaBytes();

  ShmCollectives(ShmMesh& mesh, const SharedBuffers& buffers);

  // Writes the notice of `request`. Returns true if the notice contains this rank's input, or the collective
  // moves no data. Other ranks then need nothing else from this rank, unless another rank's notice does not
  // contain its input.
  bool Begin(const Request& request);
  // Runs the collective, which waits for the other ranks. Writes the notice first if Begin has not written
  // it. Throws PeerError like ShmMesh::WaitForAll, and std::runtime_error if ranks issue different
  // collectives.
  void Run(const Request& request);

 private:
  struct Notice;
  using Vectors = std::vector<std::byte*>;  // addresses of vectors, by rank

  bool IsShort(const Request& request, const SharedBuffers::Location& place) const;
  // Returns the memory in which `rank` writes its notice of the collective that this rank has begun last.
  Notice& notice(int rank) const;
  std::byte* window(int rank, size_t chunk) const;
  void PublishNotice(const Request& request);
  void CheckSame() const;
  // PublishedInputs and SharedInputs return the addresses at which this rank reads the inputs of all ranks,
  // by rank. PublishedInputs returns nullopt unless the notices contain all inputs. SharedInputs returns
  // nullopt unless all inputs are in one shared buffer.
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
