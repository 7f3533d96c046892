#pragma once

#include <cstddef>
#include <memory>

#include "comm/processes/file_descriptor.h"

// Defines SharedMemory: memory that several processes of one host share. The kernel frees the memory when no
// process maps it or has its file open any more, also after a crash. No mounted file system, such as
// /dev/shm, limits the memory's size.
namespace gradsync::comm {

// Makes a file in memory with `bytes` zero bytes (memfd_create). Throws std::system_error on failure.
FileDescriptor MakeMemoryFile(size_t bytes);

// Maps a file from MakeMemoryFile into this process's memory. The file has one part for each rank, of the
// size that the function PartBytes returns. The mapping stays valid if the caller closes the file after the
// constructor has returned.
class SharedMemory {
 public:
  // Returns the size in bytes of each rank's part: `bytes`, rounded up to a multiple of the page size (4
  // KiB). If `bytes` is 2 MiB or more, PartBytes instead rounds up to an odd multiple of the huge page size
  // (2 MiB).
  static size_t PartBytes(size_t bytes);

  // Maps the memory file `file` into this process: `num_parts` parts, one for each rank, of PartBytes(bytes)
  // bytes each. From Linux 5.14 on, allocates the memory of this rank's part, number `own`, if possible on
  // the calling thread's NUMA node. Before Linux 5.14, the kernel allocates each page at its first access,
  // and sends SIGBUS if memory is missing. If `bytes` is 2 MiB or more, asks the kernel for huge pages for
  // this rank's part. Throws std::system_error if the kernel cannot map the file or, from Linux 5.14 on,
  // cannot allocate this rank's part.
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
