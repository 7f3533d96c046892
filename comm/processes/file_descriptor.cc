#include "comm/processes/file_descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace gradsync::comm {

void FileDescriptor::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
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

int PollTimeout(Deadline deadline) {
  if (deadline == Deadline::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Deadline::clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX));
}

bool WaitFor(int fd, short events, Deadline deadline) {
  pollfd polled{.fd = fd, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&polled, 1, PollTimeout(deadline));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace gradsync::comm
