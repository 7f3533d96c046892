#include "model/tensor/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "model/base/error.h"

namespace gradsync::model {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

class HostOutOfMemory : public std::bad_alloc {
 public:
  explicit HostOutOfMemory(size_t bytes) : what_(Join("out of memory on cpu: asked for ", bytes, " bytes")) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  const std::string what_;
};

class HostMemorySource : public MemorySource {
 public:
  void* Acquire(size_t bytes) override {
    const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : 64;
    // Operator new would round some of these sizes up to 0.
    if (bytes > PTRDIFF_MAX) throw HostOutOfMemory(bytes);
    void* memory = ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr) throw HostOutOfMemory(bytes);
    // Huge pages cut the first-touch faults of a 100 MB buffer from 25,000 to 50. This is only advice: a
    // kernel without huge pages uses small pages.
    if (bytes >= kHugePageBytes) madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
  }

  void Release(void* memory, size_t bytes) override {
    const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : 64;
    ::operator delete (memory, bytes, std::align_val_t{alignment});
  }
};

// Small blocks in steps of 64 bytes, larger ones in steps of an eighth of their power of two: the waste is
// less than 12.5 %, and nearly equal sizes share blocks.
size_t RoundUp(size_t bytes) {
  if (bytes > PTRDIFF_MAX) return bytes;  // the source rejects this size
  size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return std::max<size_t>(64, (bytes + step - 1) / step * step);
}

}  // namespace

std::unique_ptr<MemorySource> HostMemory() { return std::make_unique<HostMemorySource>(); }

CachingAllocator::CachingAllocator(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}

CachingAllocator::~CachingAllocator() { TrimLocked(); }

void* CachingAllocator::Allocate(size_t bytes) {
  const size_t wanted_bytes = RoundUp(bytes);
  std::lock_guard lock(mutex_);
  auto block = free_blocks_.lower_bound(wanted_bytes);
  void* memory = nullptr;
  size_t block_bytes = wanted_bytes;
  if (block != free_blocks_.end() && block->first <= wanted_bytes + wanted_bytes / 8) {
    block_bytes = block->first;
    memory = block->second.back();
    block->second.pop_back();
    if (block->second.empty()) free_blocks_.erase(block);
  } else {
    try {
      memory = source_->Acquire(wanted_bytes);
    } catch (const std::bad_alloc&) {
      TrimLocked();
      memory = source_->Acquire(wanted_bytes);
    }
    ++stats_.source_allocations;
    stats_.bytes_held += wanted_bytes;
  }
  used_blocks_.emplace(memory, block_bytes);
  stats_.bytes_in_use += block_bytes;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  return memory;
}

void CachingAllocator::Free(void* memory) {
  std::lock_guard lock(mutex_);
  const auto block = used_blocks_.find(memory);
  const size_t block_bytes = block->second;
  used_blocks_.erase(block);
  stats_.bytes_in_use -= block_bytes;
  free_blocks_[block_bytes].push_back(memory);
}

void CachingAllocator::CountIn(size_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.bytes_held += bytes;
  stats_.bytes_in_use += bytes;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
}

void CachingAllocator::CountOut(size_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.bytes_held -= bytes;
  stats_.bytes_in_use -= bytes;
}

void CachingAllocator::Trim() {
  std::lock_guard lock(mutex_);
  TrimLocked();
}

void CachingAllocator::TrimLocked() {
  for (const auto& [block_bytes, blocks] : free_blocks_) {
    for (void* memory : blocks) {
      source_->Release(memory, block_bytes);
      stats_.bytes_held -= block_bytes;
    }
  }
  free_blocks_.clear();
}

void CachingAllocator::ResetPeak() {
  std::lock_guard lock(mutex_);
  stats_.peak_bytes_in_use = stats_.bytes_in_use;
}

CachingAllocator::Stats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace gradsync::model
