#include "bench/peers/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "model/error.h"

namespace gradsync::bench {
namespace {

[[noreturn]] void Throw(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

std::vector<std::string> EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool changed = std::ranges::any_of(
        changes, [&](const auto& change) { return text.starts_with(change.first + "="); });
    if (!changed) entries.emplace_back(text);
  }
  for (const auto& [name, value] : changes) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns 0 or the error.
int Spawn(std::vector<std::string> command, std::vector<std::string> environment, int input_output,
          int messages, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input_output, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, input_output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
  const std::vector<char*> arguments = Pointers(command), entries = Pointers(environment);
  const int error =
      posix_spawnp(pid, command.front().c_str(), &actions, nullptr, arguments.data(), entries.data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// The last line that is not empty.
std::string LastLine(int file) {
  std::string text(static_cast<size_t>(std::max<off_t>(0, lseek(file, 0, SEEK_END))), '\0');
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, length)));
  const size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const size_t newline = text.find_last_of('\n', end);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return text.substr(begin, end + 1 - begin);
}

std::string Ending(int status) {
  if (WIFSIGNALED(status)) return Join("was ended by signal ", WTERMSIG(status));
  return Join("ended with status ", WEXITSTATUS(status));
}

}  // namespace

PeerProcess::PeerProcess(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment)
    : name_(command.front()) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) Throw("socketpair", errno);
  socket_ = sockets[0];
  messages_ = memfd_create("messages", MFD_CLOEXEC);
  const int error =
      messages_ < 0 ? errno : Spawn(command, EnvironmentWith(environment), sockets[1], messages_, &pid_);
  close(sockets[1]);
  if (error == 0) return;
  close(socket_);
  if (messages_ >= 0) close(messages_);
  Throw(name_ + ": cannot be started", error);
}

PeerProcess::~PeerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(socket_);
  close(messages_);
}

bool PeerProcess::IsReady(short events, Clock::time_point deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poll_socket{socket_, events, 0};
    const int ready = left <= 0 ? 0 : poll(&poll_socket, 1, static_cast<int>(left));
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) Throw("poll", errno);
  }
}

void PeerProcess::Send(std::span<const char> bytes, Clock::time_point deadline) {
  while (!bytes.empty() && IsReady(POLLOUT, deadline)) {
    const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) ThrowEnded();
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

std::string PeerProcess::Ask(std::string_view line, std::chrono::milliseconds timeout,
                             std::span<const std::span<const char>> payload) {
  const Clock::time_point deadline = Clock::now() + timeout;
  Send(std::string(line) + "\n", deadline);
  for (const std::span<const char> bytes : payload) Send(bytes, deadline);
  for (;;) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string answer = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return answer;
    }
    if (!IsReady(POLLIN, deadline)) {
      throw std::runtime_error(Join(name_, ": gave no answer within ", timeout.count(), " ms"));
    }
    char buffer[4096];
    const ssize_t n = recv(socket_, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ThrowEnded();
    unread_.append(buffer, static_cast<size_t>(n));
  }
}

void PeerProcess::ThrowEnded() {
  // It has closed its output; should it live on all the same, it is of no use.
  int status = 0;
  for (int i = 0; i < 100 && waitpid(pid_, &status, WNOHANG) == 0; ++i) usleep(10'000);
  const bool lives = kill(pid_, 0) == 0;
  if (!lives) pid_ = -1;
  const std::string message = LastLine(messages_);
  throw std::runtime_error(
      Join(name_, " ", lives ? "closed its output" : Ending(status), message.empty() ? "" : ": ", message));
}

std::pair<int, std::string> PeerProcess::Run(const std::vector<std::string>& command) {
  const int messages = memfd_create("messages", MFD_CLOEXEC);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  pid_t pid = 0;
  int status = 0;
  const int error = Spawn(command, EnvironmentWith({}), nothing, messages, &pid);
  if (error == 0) waitpid(pid, &status, 0);
  const std::string message = error == 0 ? LastLine(messages) : std::strerror(error);
  close(messages);
  close(nothing);
  if (error != 0) return {127, message};
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), message};
}

}  // namespace gradsync::bench
