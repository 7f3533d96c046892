#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Defines ChildProcess, the class with which the C++ code of this repository starts programs.
namespace gradsync::comm {

class ProcessEnd {
 public:
  explicit ProcessEnd(int wait_status) : wait_status_(wait_status) {}  // status of waitpid

  // Returns the exit status of the process; nullopt if a signal ended it.
  std::optional<int> exit_status() const;
  std::optional<int> signal() const;
  // Returns the status as a shell reports it: the exit status, or 128 plus the signal's number.
  int shell_status() const;
  bool ok() const { return wait_status_ == 0; }

 private:
  int wait_status_;
};

// Returns a text such as "signal 9 (SIGKILL)", or "signal 40" if the signal has no name.
std::string SignalName(int signal);
// Returns a text such as "exited with status 7" or "was killed by signal 9 (SIGKILL)".
std::string ToString(const ProcessEnd& end);

// An EnvironmentChanges map has the differences between a child process's environment and this process's
// environment. The key is a variable's name, and the value is its value in the child; nullopt removes the
// variable.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

struct ChildOptions {
  // The program to execute, by name or path; if empty, ChildProcess executes the first word of `command`.
  std::string program{};
  EnvironmentChanges environment{};
  // stdin_fd, stdout_fd and stderr_fd are descriptors of this process that become the child's standard input,
  // output and error. The caller still owns these descriptors. If a descriptor is an end of a pipe, the
  // caller must close it after the child has started, so that the process at the other end notices when the
  // child has closed its copy.
  int stdin_fd = STDIN_FILENO;
  int stdout_fd = STDOUT_FILENO;
  int stderr_fd = STDERR_FILENO;
  // If own_group is true, the child becomes the leader of a new process group, to which ChildProcess::Signal
  // and Kill send their signals. Programs that the child starts are in this group unless they leave it. The
  // signal of a terminal's Ctrl-C does not reach a child in its own process group: the caller must pass
  // signals on to it (comm/processes/stop_signals.h).
  bool own_group = false;
  // If dies_with_parent is true, the kernel kills the child when the thread that started it ends for any
  // reason.
  bool dies_with_parent = true;
};

// A child process. The destructor calls Kill, so that a process that still runs ends. The child starts with
// no signal blocked and with no descriptors except standard input, output and error. This class is not
// thread-safe.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // Executes options.program, or, if that is empty, the first word of `command`. A program whose name has no
  // slash is looked up in this process's PATH; if PATH is not set, in the working directory. All words of
  // `command`, at least one, become the program's arguments; the first word becomes argv[0]. The constructor
  // returns when the call of execve in the child has succeeded. Throws std::system_error if the program
  // cannot start. The error names the first word of `command`, unless pipe2(2) failed.
  explicit ChildProcess(const std::vector<std::string>& command, const ChildOptions& options = {});
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Returns a descriptor that becomes readable for poll(2) when the process has ended.
  int fd() const { return pid_fd_.get(); }
  // Returns how the process ended; nullopt while it runs. If the process has ended, and has its own process
  // group (own_group), also kills the programs that are still in this group.
  std::optional<ProcessEnd> end();
  // Waits until the process ends, and returns how it ended; returns nullopt if it still runs at `deadline`.
  std::optional<ProcessEnd> Wait(Clock::time_point deadline);
  // Sends a signal to the process, or to its process group if own_group is true. If the process has ended,
  // Signal sends no signal and only calls end().
  void Signal(int signal);
  // Kills the process, or its whole process group if own_group is true, waits for its end, and returns how it
  // ended.
  ProcessEnd Kill();

 private:
  pid_t pid_ = -1;
  FileDescriptor pid_fd_;
  bool own_group_ = false;
  std::optional<ProcessEnd> end_;
};

}  // namespace gradsync::comm
