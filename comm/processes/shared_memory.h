#pragma once

#include <cstddef>
#include <memory>

#include "comm/processes/file_descriptor.h"

// Defines SharedMemory: memory that several processes of one host share. The memory belongs to no path in a
// file system, so the kernel frees it when the last process that uses it ends for any reason, and no file
// system limits its size.
namespace gradsync::comm {

// Makes a file in memory with `bytes` zero bytes (memfd_create). Throws std::system_error on failure.
FileDescriptor MakeMemoryFile(size_t bytes);

// Maps a file from MakeMemoryFile into this process's memory. The file has one part for each rank, of the
// size that the function PartBytes returns. The mapping stays valid if the caller closes the file after the
// constructor has returned.
class SharedMemory {
 public:
  // Returns the size in bytes of a rank's part that can hold `bytes` bytes: a multiple of the page size (4
  // KiB), and for 2 MiB or more an odd multiple of the huge page size (2 MiB). With an even multiple,
  // accesses to equal offsets in two parts could evict each other from the processor's first-level cache.
  static size_t PartBytes(size_t bytes);

  // Maps the memory file `file` into this process: `num_parts` parts, one for each rank, of PartBytes(bytes)
  // bytes each. Allocates the memory of this rank's part, number `own`, if possible on the NUMA node of the
  // core that runs the calling thread. Asks the kernel for huge pages for a part of 2 MiB or more. Throws
  // std::system_error if the kernel cannot map the memory or, from Linux 5.14 on, cannot allocate it.
  SharedMemory(const FileDescriptor& file, size_t bytes, int num_parts, int own);

  std::byte* part(int rank) const { return base_ + static_cast<size_t>(rank) * part_bytes_; }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* memory) const;
  };

  const size_t part_bytes_;
  std::unique_ptr<void, Unmap> reserved_{nullptr, Unmap{0}};  // reserved addresses, more than are mapped
  std::byte* base_ = nullptr;                                 // aligned to a huge page
};

}  // namespace gradsync::comm
