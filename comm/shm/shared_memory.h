#pragma once

#include <cstddef>
#include <memory>

#include "comm/processes/file_descriptor.h"

// Memory that several processes have mapped. It has no name, so the system frees it when the last process
// ends for any reason, and no file system limits its size.
namespace gradsync::comm {

// A file in memory of `bytes` zeros. Throws std::system_error.
FileDescriptor MakeMemoryFile(size_t bytes);

// A mapping of such a file, with one part for each rank. The file may be closed.
class SharedMemory {
 public:
  // Size of a part with room for `bytes`: whole pages; if it is large, whole huge pages, in a number for
  // which equal offsets of two parts do not conflict in the processor's memory system.
  static size_t PartBytes(size_t bytes);

  // Maps all parts, and allocates memory for part `own`, so that it lies near its owner's core; uses huge
  // pages if possible. Throws std::system_error.
  SharedMemory(const FileDescriptor& file, size_t bytes, int num_parts, int own);

  std::byte* part(int rank) const { return base_ + static_cast<size_t>(rank) * part_bytes_; }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* memory) const;
  };

  const size_t part_bytes_;
  std::unique_ptr<void, Unmap> reserved_{nullptr, Unmap{0}};  // addresses, some more than are mapped
  std::byte* base_ = nullptr;                                 // at the begin of a huge page
};

}  // namespace gradsync::comm
