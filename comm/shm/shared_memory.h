#ifndef GRADSYNC_COMM_SHM_SHARED_MEMORY_H_
#define GRADSYNC_COMM_SHM_SHARED_MEMORY_H_

#include <cstddef>
#include <memory>

#include "comm/processes/file_descriptor.h"

// Memory that several processes have mapped. It has no name, so nothing of it is left when the last of them
// is gone, however that comes about, and no file system bounds it.
namespace gradsync::comm {

// A file in memory of `bytes` zeros. Throws std::system_error.
FileDescriptor MakeMemoryFile(size_t bytes);

// A mapping of such a file, which is cut into one part for each rank. The file itself may be closed.
class SharedMemory {
 public:
  // So much of the file does a part take that has room for `bytes`: whole pages, huge ones if it is large,
  // and so many of these that no processor confuses the same places of two parts.
  static size_t PartBytes(size_t bytes);

  // Maps all parts, and takes memory for part `own`, so that it lies where the owner computes; huge pages if
  // it can be. Throws std::system_error.
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

#endif  // GRADSYNC_COMM_SHM_SHARED_MEMORY_H_
