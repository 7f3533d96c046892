#include "comm/processes/shared_memory.h"

#include <linux/mman.h>  // MADV_COLLAPSE
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace gradsync::comm {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

[[noreturn]] void Throw(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

FileDescriptor MakeMemoryFile(size_t bytes) {
  FileDescriptor file(memfd_create("gradsync", MFD_CLOEXEC));
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) Throw("shared memory");
  return file;
}

// Uses an odd number of huge pages. Then no two of 128 ranks have parts at a distance of a multiple of 256
// MiB. AMD's first-level cache selects lines by 8 bits that it computes from bits 12 to 27 of their addresses
// (Lipp et al., "Take A Way", 2020), so lines at such distances evict each other: a sum of two such vectors
// takes six times as long.
size_t SharedMemory::PartBytes(size_t bytes) {
  if (bytes < kHugePageBytes) return RoundUp(bytes, kPageBytes);
  return (RoundUp(bytes, kHugePageBytes) / kHugePageBytes | 1) * kHugePageBytes;
}

void SharedMemory::Unmap::operator()(void* memory) const { munmap(memory, bytes); }

SharedMemory::SharedMemory(const FileDescriptor& file, size_t bytes, int num_parts, int own)
    : part_bytes_(PartBytes(bytes)) {
  const size_t mapped_bytes = part_bytes_ * static_cast<size_t>(num_parts);
  // A huge page needs an address that is a multiple of its size, which mmap does not guarantee.
  const size_t reserved_bytes = mapped_bytes + kHugePageBytes;
  void* const reserved =
      mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) Throw("addresses for shared memory");
  reserved_ = {reserved, Unmap{reserved_bytes}};
  base_ = reinterpret_cast<std::byte*>(RoundUp(reinterpret_cast<uintptr_t>(reserved), kHugePageBytes));
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  if (mmap(base_, mapped_bytes, kAccess, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
    Throw("mapping of shared memory");
  }
  const bool is_large = bytes >= kHugePageBytes;
  if (is_large) madvise(part(own), part_bytes_, MADV_HUGEPAGE);
  // Older systems allocate memory at the first access, and report missing memory by a signal.
  if (madvise(part(own), part_bytes_, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) Throw("shared memory");
  // Many systems ignore the advice for shared memory, but obey this request.
  if (is_large) madvise(part(own), part_bytes_, MADV_COLLAPSE);
}

}  // namespace gradsync::comm
