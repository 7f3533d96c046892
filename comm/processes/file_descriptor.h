#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace gradsync::comm {

// An open file, pipe or socket. The destructor closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_;
};

// Raises this process's limit of open descriptors to its maximum (setrlimit).
void RaiseDescriptorLimit();

// Opens a file with the flags of open(2). A file that it creates is readable only by its owner. Throws
// std::system_error, which names the path. The descriptor is closed when a program is executed
// (close-on-exec), as with every function in this file.
FileDescriptor OpenFile(const std::string& path, int flags);

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};
// Makes a pipe. Throws std::system_error.
Pipe MakePipe();

using Deadline = std::chrono::steady_clock::time_point;

// Returns the milliseconds until `deadline`, rounded up, as the timeout of poll(2); for Deadline::max()
// returns -1 (no limit).
int PollTimeout(Deadline deadline);
// Waits until the file `fd` is ready for `events` of poll(2), and then returns true. Returns false if it is
// not ready by the deadline.
bool WaitFor(int fd, short events, Deadline deadline);
inline bool WaitFor(const FileDescriptor& file, short events, Deadline deadline) {
  return WaitFor(file.get(), events, deadline);
}

}  // namespace gradsync::comm
