#pragma once

#include <cstddef>
#include <memory>

#include "comm/processes/file_descriptor.h"

// Memory that several processes have mapped. This memory has no name, so the system frees it when the last
// process ends for any reason, and no file system limits its size.
namespace gradsync::comm {

// Makes a file in memory with `bytes` zero bytes. Throws std::system_error.
FileDescriptor MakeMemoryFile(size_t bytes);

// Maps a file of MakeMemoryFile, with one part for each rank. The file may be closed after the constructor.
class SharedMemory {
 public:
  // Returns the size of a part that holds `bytes`: whole pages, and for large parts whole huge pages. The
  // number of huge pages is odd, because equal offsets of two parts would otherwise conflict in the
  // processor's memory system.
  static size_t PartBytes(size_t bytes);

  // Maps all parts, and allocates memory for part `own`, so that this part is near the core of the calling
  // thread (NUMA). Uses huge pages if possible. Throws std::system_error.
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
