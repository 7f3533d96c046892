#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gradsync::model {

// The interface through which CachingAllocator gets memory from the operating system or a GPU driver.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  // Returns `bytes` of memory, aligned to at least 64 bytes. Throws std::bad_alloc if there is not enough
  // memory.
  virtual void* Acquire(size_t bytes) = 0;
  virtual void Release(void* memory, size_t bytes) = 0;
};

// Returns a MemorySource that allocates CPU memory. For blocks of 2 MiB and more this MemorySource asks the
// operating system for huge pages.
std::unique_ptr<MemorySource> HostMemory();

// Allocates blocks of memory from a source (MemorySource), and keeps freed blocks for later requests. The
// allocator gives all kept blocks back to the source in Trim(), in its destructor, and when
// MemorySource::Acquire throws std::bad_alloc. Training steps usually request the same sizes, so after the
// first steps kept blocks usually serve all requests. The class is thread safe.
//
// Requested sizes below 1 KiB are rounded up to a multiple of 64 bytes, and 0 to 64. Sizes of 1 KiB or more
// are rounded up by less than an eighth. A kept block serves a request if it has the rounded size, or exceeds
// it by at most an eighth.
class CachingAllocator {
 public:
  struct Stats {
    int64_t source_allocations = 0;  // number of successful calls of MemorySource::Acquire
    size_t bytes_held = 0;           // bytes taken from the source and not returned, and bytes of CountIn
    size_t bytes_in_use = 0;         // bytes of allocated blocks, and bytes of CountIn
    size_t peak_bytes_in_use = 0;
  };

  explicit CachingAllocator(std::unique_ptr<MemorySource> source);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Returns a block of at least `bytes` (0 is allowed), aligned to at least 64 bytes. If
  // MemorySource::Acquire throws std::bad_alloc, Allocate gives all kept blocks back to the source and tries
  // again. Throws std::bad_alloc if the second try fails too.
  void* Allocate(size_t bytes);
  void Free(void* memory);

  // CountIn adds `bytes`, the size of memory allocated elsewhere (such as memory shared between processes),
  // to bytes_held and bytes_in_use of Stats. CountOut subtracts `bytes` from both.
  void CountIn(size_t bytes);
  void CountOut(size_t bytes);

  // Gives all kept (freed) blocks back to the MemorySource from which they came.
  void Trim();

  Stats stats() const;
  void ResetPeak();

 private:
  void TrimLocked();

  const std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_blocks_;  // free blocks by block size in bytes
  std::map<void*, size_t> used_blocks_;               // block sizes in bytes
  Stats stats_;
};

}  // namespace gradsync::model
