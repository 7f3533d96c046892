#include "comm/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "comm/line_relay.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// So long a rank's output is kept back, in case that all ranks only say what is wrong with the arguments.
constexpr milliseconds kHold{1000};
constexpr int kBadArguments = 2;

[[noreturn]] void ThrowErrno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// A fresh directory under TMPDIR, removed at the end.
class RendezvousDirectory {
 public:
  RendezvousDirectory() : path_((std::filesystem::temp_directory_path() / "gradsync.XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) ThrowErrno(path_.c_str());
  }
  ~RendezvousDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RendezvousDirectory(const RendezvousDirectory&) = delete;
  RendezvousDirectory& operator=(const RendezvousDirectory&) = delete;
  std::string url() const { return "file://" + path_; }

 private:
  std::string path_;
};

// Turns the signals that matter to a launcher into something to poll. The old mask comes back at the end.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, signal);
    // If it were ignored, the kernel would forget how children ended.
    old_child_handler_ = signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &mask, &old_mask_);
    fd_ = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) ThrowErrno("signalfd");
  }
  ~SignalQueue() {
    close(fd_);
    signal(SIGCHLD, old_child_handler_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_; }
  const sigset_t& old_mask() const { return old_mask_; }

  // The next SIGINT, SIGTERM or SIGHUP that has come; nullopt if there is none. Forgets SIGCHLD.
  std::optional<int> NextRequestToStop() {
    signalfd_siginfo info;
    while (read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    }
    return std::nullopt;
  }

 private:
  int fd_ = -1;
  sigset_t old_mask_{};
  void (*old_child_handler_)(int) = SIG_DFL;
};

// This process's environment with the launcher's variables.
std::vector<std::string> EnvironmentOf(int rank, int size, const std::string& rendezvous) {
  std::vector<std::string> variables = {
      Join("GRADSYNC_RANK=", rank),
      Join("GRADSYNC_WORLD_SIZE=", size),
      Join("GRADSYNC_LOCAL_RANK=", rank),
      Join("GRADSYNC_LOCAL_WORLD_SIZE=", size),
      Join("GRADSYNC_RENDEZVOUS=", rendezvous),
  };
  const auto is_overridden = [&, count = variables.size()](std::string_view variable) {
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    return std::any_of(variables.begin(), variables.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](const std::string& own) { return own.starts_with(name); });
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_overridden(*variable)) variables.emplace_back(*variable);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Rank {
  int index = 0;
  pid_t pid = -1;  // -1 once it has ended
  std::optional<LineRelay> relay;
};

// How a rank ended.
struct End {
  int rank = 0;
  pid_t pid = 0;
  int status = 0;  // as from waitpid

  bool failed() const { return status != 0; }
  bool killed() const { return WIFSIGNALED(status); }
  bool bad_arguments() const { return WIFEXITED(status) && WEXITSTATUS(status) == kBadArguments; }
};

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return Join("signal ", signal, name == nullptr ? "" : Join(" (SIG", name, ")"));
}

std::string ToString(const End& end) {
  const std::string who = Join("rank ", end.rank, " (pid ", end.pid, ")");
  return end.killed() ? Join(who, " was killed by ", SignalName(WTERMSIG(end.status)))
                      : Join(who, " exited with status ", WEXITSTATUS(end.status));
}

class Launcher {
 public:
  Launcher(const LaunchOptions& options, std::span<char* const> argv) : options_(options) {
    for (char* argument : argv) {
      if (argument != nullptr) arguments_.emplace_back(argument);
    }
  }
  ~Launcher() {
    // Only when starting failed half-way are there any left.
    SignalAll(SIGKILL);
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) waitpid(rank.pid, nullptr, 0);
    }
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  int Run() {
    for (int rank = 0; rank < options_.world_size; ++rank) Start(rank);
    while (AnyAlive()) {
      WaitForEvents();
      if (const auto signal = signals_.NextRequestToStop();
          signal.has_value() && !interruption_.has_value()) {
        interruption_ = signal;
        stop_at_ = Clock::now();
      }
      Reap();
      Stop();
      for (Rank& rank : ranks_) {
        if (rank.relay.has_value()) rank.relay->Read();
      }
    }
    return Report();
  }

 private:
  void Start(int index) {
    std::vector<std::string> environment = EnvironmentOf(index, options_.world_size, directory_.url());
    const std::vector<char*> environment_pointers = Pointers(environment);
    const std::vector<char*> argument_pointers = Pointers(arguments_);
    std::array<int, 2> output = {-1, -1};
    if (index > 0 && pipe2(output.data(), O_CLOEXEC) != 0) ThrowErrno("pipe");

    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) Execute(parent, output[1], argument_pointers, environment_pointers);
    if (index > 0) close(output[1]);
    Rank rank{.index = index, .pid = pid, .relay = std::nullopt};
    if (index > 0) rank.relay.emplace(output[0], Join("[rank ", index, "] "), STDERR_FILENO, kHold);
    ranks_.push_back(std::move(rank));
    if (pid < 0) ThrowErrno("fork");
  }

  // In the child, where nothing but system calls is allowed.
  [[noreturn]] void Execute(pid_t parent, int output, const std::vector<char*>& arguments,
                            const std::vector<char*>& environment) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before the call
    if (output >= 0) {
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
      const int null = open("/dev/null", O_RDONLY);
      if (null >= 0) dup2(null, STDIN_FILENO);
    }
    sigprocmask(SIG_SETMASK, &signals_.old_mask(), nullptr);
    execve(options_.program.c_str(), arguments.data(), environment.data());
    constexpr std::string_view kMessage = "cannot execute the program anew\n";
    (void)!write(STDERR_FILENO, kMessage.data(), kMessage.size());
    _exit(1);
  }

  bool AnyAlive() const {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.pid > 0; });
  }

  void SignalAll(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) kill(rank.pid, signal);
    }
  }

  void WaitForEvents() {
    std::vector<pollfd> polled = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    for (const Rank& rank : ranks_) {
      if (rank.relay.has_value() && rank.relay->open()) {
        polled.push_back({.fd = rank.relay->fd(), .events = POLLIN, .revents = 0});
      }
    }
    poll(polled.data(), polled.size(), 20);
  }

  void Reap() {
    for (Rank& rank : ranks_) {
      End end{.rank = rank.index, .pid = rank.pid};
      if (rank.pid <= 0 || waitpid(rank.pid, &end.status, WNOHANG) != rank.pid) continue;
      rank.pid = -1;
      if (rank.relay.has_value()) {
        rank.relay->Read();
        if (end.bad_arguments()) {
          rank.relay->Keep();
        } else {
          rank.relay->Close();
        }
      }
      // What dies after being told to is no cause of anything.
      if (!end.failed() || asked_) continue;
      failures_.push_back(end);
      if (!stop_at_.has_value()) stop_at_ = Clock::now() + options_.settle;
    }
  }

  // Asks the ranks to stop once it is time to, and makes them after the grace.
  void Stop() {
    if (!stop_at_.has_value() || Clock::now() < *stop_at_) return;
    if (!asked_) {
      asked_ = true;
      SignalAll(SIGTERM);
    } else if (Clock::now() >= *stop_at_ + options_.grace) {
      SignalAll(SIGKILL);
    }
  }

  int Report() {
    // A rank that was killed did not fail because of another, whoever was noticed first.
    auto cause = std::ranges::find_if(failures_, &End::killed);
    if (cause == failures_.end()) cause = failures_.begin();
    const bool bad_arguments = cause != failures_.end() && cause->bad_arguments();
    if (bad_arguments) {
      const int first = std::ranges::min(failures_, {}, &End::rank).rank;
      if (auto& relay = ranks_[static_cast<size_t>(first)].relay; relay.has_value()) relay->Close();
      return kBadArguments;
    }
    const std::string_view others = options_.world_size > 1 ? "; stopped the other ranks" : "";
    std::string line;
    if (interruption_.has_value()) line = Join("stopped all ranks on ", SignalName(*interruption_));
    if (cause != failures_.end()) line = Join(ToString(*cause), others);
    if (line.empty()) return 0;
    line += '\n';
    (void)!write(STDERR_FILENO, line.data(), line.size());
    return 1;
  }

  const LaunchOptions options_;
  std::vector<std::string> arguments_;
  RendezvousDirectory directory_;
  SignalQueue signals_;
  std::vector<Rank> ranks_;
  std::vector<End> failures_;  // in the order in which they were noticed
  std::optional<int> interruption_;
  std::optional<Clock::time_point> stop_at_;
  bool asked_ = false;  // the ranks were asked to stop
};

}  // namespace

int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv) {
  Require(options.world_size >= 1, "world_size is ", options.world_size, ", expected at least 1");
  return Launcher(options, argv).Run();
}

}  // namespace gradsync::comm
