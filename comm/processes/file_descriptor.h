#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace gradsync::comm {

// A file, pipe or socket. The destructor closes it.
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
// std::system_error, which names the path. Sets close-on-exec, like all functions in this file.
FileDescriptor OpenFile(const std::string& path, int flags);

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};
// Makes a pipe. Throws std::system_error.
Pipe MakePipe();

using Deadline = std::chrono::steady_clock::time_point;

// Returns the milliseconds until the deadline, rounded up, for poll(2); infinite for Deadline::max().
int PollTimeout(Deadline deadline);
// Waits until the file is ready for `events` of poll(2). Returns false at the deadline.
bool WaitFor(int fd, short events, Deadline deadline);
inline bool WaitFor(const FileDescriptor& file, short events, Deadline deadline) {
  return WaitFor(file.get(), events, deadline);
}

}  // namespace gradsync::comm
