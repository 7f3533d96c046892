#include "comm/processes/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace gradsync::comm {

void FileDescriptor::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

FileDescriptor OpenFile(const std::string& path, int flags) {
  FileDescriptor file(open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file.valid()) throw std::system_error(errno, std::generic_category(), path);
  return file;
}

Pipe MakePipe() {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return {.read_end = FileDescriptor(ends[0]), .write_end = FileDescriptor(ends[1])};
}

}  // namespace gradsync::comm
