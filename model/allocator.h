#ifndef GRADSYNC_MODEL_ALLOCATOR_H_
#define GRADSYNC_MODEL_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gradsync::model {

// Where memory comes from: the operating system, or a GPU driver. Slow, and its pages may be mapped on first
// use.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  // Returns `bytes` of memory, aligned to at least 64 bytes. Throws std::bad_alloc.
  virtual void* Acquire(size_t bytes) = 0;
  virtual void Release(void* memory, size_t bytes) = 0;
};

// The host's memory. Blocks of 2 MiB and more are mapped aligned to huge pages and ask for them.
std::unique_ptr<MemorySource> HostMemory();

// Keeps every block that is given back and hands it out again, so that a training step that repeats asks
// the source for nothing and touches no page for the first time.
//
// A block serves a request whose rounded size is the same or at most an eighth smaller: the sizes of a
// step repeat exactly, so a closer search would not find more. Thread safe.
class CachingAllocator {
 public:
  struct Stats {
    int64_t source_allocations = 0;  // calls of MemorySource::Acquire so far
    size_t bytes_held = 0;           // taken from the source and not given back, or counted in
    size_t bytes_in_use = 0;         // handed out, or counted in
    size_t peak_bytes_in_use = 0;
  };

  explicit CachingAllocator(std::unique_ptr<MemorySource> source);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Returns at least `bytes` (0 is allowed), aligned to at least 64 bytes. Throws std::bad_alloc when the
  // source has no more, after giving back everything that is cached and trying again.
  void* Allocate(size_t bytes);
  void Free(void* memory);

  // Adds memory from elsewhere to the statistics, such as buffers that a group shares between processes.
  void CountIn(size_t bytes);
  void CountOut(size_t bytes);

  // Gives all cached blocks back to the source.
  void Trim();

  Stats stats() const;
  // Starts the peak again from what is in use now.
  void ResetPeak();

 private:
  void TrimLocked();

  const std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_blocks_;  // by block size in bytes
  std::map<void*, size_t> used_blocks_;               // block size in bytes
  Stats stats_;
};

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_ALLOCATOR_H_
