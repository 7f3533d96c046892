#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gradsync::model {

// A source of memory: the operating system, or a GPU driver. Such a source is slow, and pages may be mapped
// only at their first use.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  // Returns `bytes` of memory, aligned to at least 64 bytes. Throws std::bad_alloc.
  virtual void* Acquire(size_t bytes) = 0;
  virtual void Release(void* memory, size_t bytes) = 0;
};

// Returns a source of host memory. Blocks of 2 MiB and more are aligned to huge pages and request huge pages.
std::unique_ptr<MemorySource> HostMemory();

// Keeps every freed block and reuses it, so that repeated training steps request nothing from the source and
// touch no page for the first time.
//
// A block serves a request whose rounded size equals the block's size, or is at most an eighth smaller. The
// sizes of a step repeat exactly, so a closer search would not find more blocks. Thread safe.
class CachingAllocator {
 public:
  struct Stats {
    int64_t source_allocations = 0;  // number of calls of MemorySource::Acquire so far
    size_t bytes_held = 0;           // bytes taken from the source and not returned, plus bytes of CountIn
    size_t bytes_in_use = 0;         // bytes of allocated blocks, plus bytes of CountIn
    size_t peak_bytes_in_use = 0;
  };

  explicit CachingAllocator(std::unique_ptr<MemorySource> source);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Returns at least `bytes` (0 is allowed), aligned to at least 64 bytes. If the source has no memory,
  // returns all cached blocks to it and retries; then throws std::bad_alloc.
  void* Allocate(size_t bytes);
  void Free(void* memory);

  // Adds memory of other sources to the statistics, such as buffers that a group shares between processes.
  void CountIn(size_t bytes);
  void CountOut(size_t bytes);

  // Returns all cached blocks to the source.
  void Trim();

  Stats stats() const;
  // Sets the peak to the bytes in use now.
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
