#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace gradsync::comm {

// Owns the descriptor of an open file, pipe or socket. The destructor closes the descriptor.
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

// Raises this process's soft limit of open descriptors to its hard limit (RLIMIT_NOFILE).
void RaiseDescriptorLimit();

// Opens the file `path` with open(2) and the flags `flags`. A file that OpenFile creates has mode 0600: only
// its owner can read and write it. Throws std::system_error, which names the path, if the file cannot be
// opened. The descriptor is closed when this process executes a program (close-on-exec).
FileDescriptor OpenFile(const std::string& path, int flags);

struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};
// Makes a pipe with close-on-exec descriptors. Throws std::system_error if pipe2(2) fails.
Pipe MakePipe();

using Deadline = std::chrono::steady_clock::time_point;

// Returns the argument `timeout` of poll(2): the milliseconds until `deadline`, rounded up, and at most
// INT32_MAX (24 days). Returns 0 after the deadline, and -1 (no limit) for Deadline::max().
int PollTimeout(Deadline deadline);
// Waits until poll(2) reports one of `events`, an error or a hang-up for the descriptor `fd`, and then
// returns true. Returns false if poll(2) reports nothing by the deadline, or fails.
bool WaitFor(int fd, short events, Deadline deadline);
inline bool WaitFor(const FileDescriptor& file, short events, Deadline deadline) {
  return WaitFor(file.get(), events, deadline);
}

}  // namespace gradsync::comm
