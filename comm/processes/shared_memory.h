#pragma once

#include <cstddef>
#include <memory>

#include "comm/processes/file_descriptor.h"

// Memory that several processes have mapped. It belongs to no path in a file system, so the system frees it
// when the last process ends for any reason, and no file system limits its size.
namespace gradsync::comm {

// Makes a file in memory with `bytes` zero bytes. Throws std::system_error.
FileDescriptor MakeMemoryFile(size_t bytes);

// Maps a file of MakeMemoryFile, which holds one part of equal size for each rank. The caller may close the
// file after the constructor has returned.
class SharedMemory {
 public:
  // Returns the number of bytes of a part that can hold `bytes` bytes: a multiple of the page size, and for
  // large parts a multiple of the huge page size. The number of huge pages in a part is odd: otherwise
  // accesses to equal offsets in two parts would conflict in the processor's memory system.
  static size_t PartBytes(size_t bytes);

  // Maps the parts of all ranks, and allocates the memory of this rank's part `own` near the core that runs
  // the calling thread (if possible on its NUMA node). Uses huge pages if possible. Throws std::system_error.
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
