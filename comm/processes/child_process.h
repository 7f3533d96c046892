#ifndef GRADSYNC_COMM_PROCESSES_CHILD_PROCESS_H_
#define GRADSYNC_COMM_PROCESSES_CHILD_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/file_descriptor.h"

// The one way in which this repository starts programs.
namespace gradsync::comm {

// How a process ended.
class ProcessEnd {
 public:
  explicit ProcessEnd(int wait_status) : wait_status_(wait_status) {}  // as from waitpid

  // The status it exited with; nullopt if a signal ended it.
  std::optional<int> exit_status() const;
  // The signal that ended it; nullopt if it exited.
  std::optional<int> signal() const;
  // As a shell has it: the exit status, or 128 and the signal's number.
  int shell_status() const;
  bool ok() const { return wait_status_ == 0; }

 private:
  int wait_status_;
};

// "signal 9 (SIGKILL)".
std::string SignalName(int signal);
// "exited with status 7", "was killed by signal 9 (SIGKILL)".
std::string ToString(const ProcessEnd& end);

struct ChildOptions {
  // What to execute, if that is not the command's first word.
  std::string program{};
  // By name, on top of this process's own; nullopt takes a variable away.
  std::map<std::string, std::optional<std::string>> environment{};
  // Which of this process's descriptors the child has as its standard ones: a file, an end of a pipe or of a
  // socket pair, memory. They stay the caller's, who closes the child's end of a pipe after the start.
  int stdin_fd = STDIN_FILENO;
  int stdout_fd = STDOUT_FILENO;
  int stderr_fd = STDERR_FILENO;
  // Makes it the leader of a process group, so that what it starts ends with it. A terminal's Ctrl-C does not
  // reach such a child: pass signals on to it (comm/processes/stop_signals.h).
  bool own_group = false;
  // The kernel kills it when the thread that started it ends, however that comes about.
  bool dies_with_parent = true;
};

// A program that runs beside this one, at most as long as this object lives. It starts with no signal blocked
// and with no descriptors but the three above. Not thread-safe.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // Executes the command's first word, looked up in PATH if it has no slash, with all of them as arguments.
  // Returns when the program has taken over. Throws std::system_error, which names the program, if it cannot
  // be started.
  explicit ChildProcess(const std::vector<std::string>& command, const ChildOptions& options = {});
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Readable for poll(2) when it has ended.
  int fd() const { return pid_fd_.get(); }
  // How it ended; nullopt while it runs.
  std::optional<ProcessEnd> end();
  // Waits for its end, but not longer than until the deadline: then nullopt.
  std::optional<ProcessEnd> Wait(Clock::time_point deadline);
  // Sends it a signal, or its whole group if it has its own; nothing once it has ended.
  void Signal(int signal);
  // Makes it end, with its group if it has its own.
  ProcessEnd Kill();

 private:
  pid_t pid_ = -1;
  FileDescriptor pid_fd_;
  bool own_group_ = false;
  std::optional<ProcessEnd> end_;
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_CHILD_PROCESS_H_
