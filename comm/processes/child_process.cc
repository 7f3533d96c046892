#include "comm/processes/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_split.h"
#include "comm/processes/stop_signals.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

// The data that the child needs. It is complete before the fork: after it, in a process that may have had
// other threads, only system calls are allowed.
struct Plan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  std::array<int, 3> standard_fds;
  bool own_group;
  bool dies_with_parent;
  pid_t parent;
  int error_fd;  // receives errno if the program cannot be executed; closed by a successful execution
};

[[noreturn]] void FailInChild(const Plan& plan) {
  const int error = errno;
  (void)!write(plan.error_fd, &error, sizeof(error));
  _exit(127);
}

[[noreturn]] void Execute(const Plan& plan) {
  if (plan.dies_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan.parent) _exit(127);  // the parent died before the call
  }
  if (plan.own_group) setpgid(0, 0);
  // Moves the descriptors first, so that no descriptor is overwritten before it is in its place.
  std::array<int, 3> fds = plan.standard_fds;
  for (int& fd : fds) {
    const bool is_inherited = fd <= STDERR_FILENO;  // and perhaps closed
    fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (fd < 0 && !is_inherited) FailInChild(plan);
  }
  for (int i = 0; i < 3; ++i) {
    if (fds[static_cast<size_t>(i)] >= 0) dup2(fds[static_cast<size_t>(i)], i);
  }
  close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  const sigset_t none = SetOf({});
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.program, plan.arguments, plan.environment);
  FailInChild(plan);
}

std::string FindInPath(const std::string& program) {
  const char* const path = std::getenv("PATH");
  if (program.find('/') != std::string::npos || path == nullptr) return program;
  for (const absl::string_view directory : absl::StrSplit(path, ':')) {
    std::string candidate = Join(directory, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::vector<std::string> EnvironmentWith(const EnvironmentChanges& changes) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value.has_value()) variables.push_back(Join(name, "=", *value));
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::optional<int> ProcessEnd::exit_status() const {
  return WIFEXITED(wait_status_) ? std::optional<int>(WEXITSTATUS(wait_status_)) : std::nullopt;
}

std::optional<int> ProcessEnd::signal() const {
  return WIFSIGNALED(wait_status_) ? std::optional<int>(WTERMSIG(wait_status_)) : std::nullopt;
}

int ProcessEnd::shell_status() const {
  return exit_status().has_value() ? *exit_status() : 128 + signal().value_or(0);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return Join("signal ", signal, name == nullptr ? "" : Join(" (SIG", name, ")"));
}

std::string ToString(const ProcessEnd& end) {
  return end.signal().has_value() ? Join("was killed by ", SignalName(*end.signal()))
                                  : Join("exited with status ", end.shell_status());
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, const ChildOptions& options)
    : own_group_(options.own_group) {
  const std::string program = FindInPath(options.program.empty() ? command.front() : options.program);
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = EnvironmentWith(options.environment);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  Pipe error_pipe = MakePipe();
  const Plan plan = {.program = program.c_str(),
                     .arguments = argument_pointers.data(),
                     .environment = environment_pointers.data(),
                     .standard_fds = {options.stdin_fd, options.stdout_fd, options.stderr_fd},
                     .own_group = options.own_group,
                     .dies_with_parent = options.dies_with_parent,
                     .parent = getpid(),
                     .error_fd = error_pipe.write_end.get()};
  // If this process inherited an ignored SIGCHLD, the kernel would discard the children's exit statuses.
  struct sigaction on_child_end {};
  sigaction(SIGCHLD, nullptr, &on_child_end);
  if (on_child_end.sa_handler == SIG_IGN) signal(SIGCHLD, SIG_DFL);

  int error = 0;
  {
    sigset_t all;
    sigfillset(&all);
    const BlockSignals block_signals(all);  // a handler of this program must not run in the child
    pid_ = fork();
    if (pid_ == 0) Execute(plan);
    if (pid_ > 0) pid_fd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    error = pid_fd_.valid() ? 0 : errno;
    if (pid_ > 0 && error != 0) kill(pid_, SIGKILL);
    error_pipe.write_end.Close();
    const bool has_failed = read(error_pipe.read_end.get(), &error, sizeof(error)) > 0 || error != 0;
    if (pid_ > 0 && has_failed) waitpid(pid_, nullptr, 0);
  }
  if (error == 0) return;
  throw std::system_error(error, std::generic_category(), Join("cannot run ", command.front()));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_fd_(std::move(other.pid_fd_)),
      own_group_(other.own_group_),
      end_(other.end_) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) Kill();
}

std::optional<ProcessEnd> ChildProcess::end() {
  if (end_.has_value()) return end_;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
    return std::nullopt;
  // Until the process has been waited for, no other process can have its number.
  if (own_group_) kill(-pid_, SIGKILL);
  int status = 0xff00;  // status 255, if other code has waited for the process
  waitpid(pid_, &status, 0);
  return end_ = ProcessEnd(status);
}

std::optional<ProcessEnd> ChildProcess::Wait(Clock::time_point deadline) {
  WaitFor(pid_fd_, POLLIN, deadline);
  return end();
}

void ChildProcess::Signal(int signal) {
  if (!end().has_value()) kill(own_group_ ? -pid_ : pid_, signal);
}

ProcessEnd ChildProcess::Kill() {
  Signal(SIGKILL);
  return *Wait(Deadline::max());
}

}  // namespace gradsync::comm
