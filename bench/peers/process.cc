#include "bench/peers/process.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "model/error.h"

namespace gradsync::bench {

PeerProcess::PeerProcess(const std::vector<std::string>& command,
                         const std::map<std::string, std::optional<std::string>>& environment)
    : name_(command.front()) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  socket_ = comm::FileDescriptor(sockets[0]);
  const comm::FileDescriptor its_end(sockets[1]);
  child_.emplace(command, comm::ChildOptions{.environment = environment,
                                             .stdin_fd = its_end.get(),
                                             .stdout_fd = its_end.get(),
                                             .stderr_fd = messages_.fd()});
}

void PeerProcess::Send(std::span<const char> bytes, comm::Deadline deadline) {
  while (!bytes.empty() && comm::WaitFor(socket_, POLLOUT, deadline)) {
    const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) ThrowEnded();
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

std::string PeerProcess::Ask(std::string_view line, std::chrono::milliseconds timeout,
                             std::span<const std::span<const char>> payload) {
  const comm::Deadline deadline = std::chrono::steady_clock::now() + timeout;
  Send(std::string(line) + "\n", deadline);
  for (const std::span<const char> bytes : payload) Send(bytes, deadline);
  for (;;) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string answer = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return answer;
    }
    if (!comm::WaitFor(socket_, POLLIN, deadline)) {
      throw std::runtime_error(Join(name_, ": gave no answer within ", timeout.count(), " ms"));
    }
    char buffer[4096];
    const ssize_t n = recv(socket_.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ThrowEnded();
    unread_.append(buffer, static_cast<size_t>(n));
  }
}

void PeerProcess::ThrowEnded() {
  // It has closed its output, and is not waited for longer than that.
  const auto end = child_->Wait(std::chrono::steady_clock::now() + std::chrono::seconds(1));
  const std::string message = messages_.last_line();
  throw std::runtime_error(Join(name_, " ", end.has_value() ? comm::ToString(*end) : "closed its output",
                                message.empty() ? "" : ": ", message));
}

}  // namespace gradsync::bench
