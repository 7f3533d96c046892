#include "comm/processes/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"
#include "comm/processes/random.h"
#include "comm/processes/stop_signals.h"
#include "comm/processes/temporary_directory.h"
#include "model/base/error.h"
#include "model/base/exit_status.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// The rank that reports bad arguments makes this file.
constexpr char kReportVariable[] = "GRADSYNC_REPORT";

struct Rank {
  int index = 0;
  ChildProcess process;
  bool ended = false;
};

// A rank that failed.
struct Failure {
  int rank = 0;
  pid_t pid = 0;
  ProcessEnd end;

  bool killed() const { return end.signal().has_value(); }
  // Returns false for a rank that fails because of another rank.
  bool exited_by_itself() const { return !killed() && end.exit_status() != kFailed; }
  bool bad_arguments() const { return end.exit_status() == kBadArguments; }
};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, std::span<char* const> argv)
      : options_(options), arguments_(argv.begin(), argv.end()) {}

  struct Ending {
    int status;                 // main's exit status
    std::optional<int> signal;  // asked this process to stop
  };

  Ending Run() {
    if (options_.with_mpirun) StartMpirun();
    for (int rank = 0; rank < options_.world_size && !options_.with_mpirun; ++rank) Start(rank);
    while (AnyAlive()) {
      WaitForEvents();
      // The order matters: a terminal's Ctrl-C also goes to the ranks, and arrives here before the ranks end.
      const size_t num_failures = failures_.size();
      Reap();
      TakeRequests(num_failures);
      Stop();
    }
    return {Report(), interruption_};
  }

 private:
  ChildOptions OptionsOfAll() const {
    return {.environment = {{"GRADSYNC_RENDEZVOUS", "file://" + directory_.path()},
                            {"GRADSYNC_JOB", std::filesystem::path(directory_.path()).filename()},
                            {kReportVariable, directory_.path() + "/report"},
                            {"GRADSYNC_SECRET", secret_}}};
  }

  void Start(int index) {
    const std::string rank = std::to_string(index);
    const std::string size = std::to_string(options_.world_size);
    ChildOptions options = OptionsOfAll();
    options.program = "/proc/self/exe";
    options.environment.insert({{"GRADSYNC_RANK", rank},
                                {"GRADSYNC_WORLD_SIZE", size},
                                {"GRADSYNC_LOCAL_RANK", rank},
                                {"GRADSYNC_LOCAL_WORLD_SIZE", size}});
    const FileDescriptor nothing = OpenFile("/dev/null", O_RDONLY);
    if (index > 0) {
      options.stdin_fd = nothing.get();
      options.stdout_fd = STDERR_FILENO;
    }
    ranks_.push_back({.index = index, .process = ChildProcess(arguments_, options)});
  }

  // mpirun kills the other ranks when one has failed, and ends with its status.
  void StartMpirun() {
    ChildOptions options = OptionsOfAll();
    options.environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                {"OMPI_MCA_rmaps_base_oversubscribe", "1"},                     // 4
                                {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}});  // 5
    std::vector<std::string> command = {"mpirun",    "-n",   std::to_string(options_.world_size),
                                        "--bind-to", "none", std::filesystem::read_symlink("/proc/self/exe")};
    command.insert(command.end(), arguments_.begin() + 1, arguments_.end());
    ranks_.push_back({.process = ChildProcess(command, options)});
  }

  bool AnyAlive() const {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return !rank.ended; });
  }

  // Signals rank 0 last, because a rank that sees rank 0 end before it receives its own signal would blame
  // rank 0.
  void SignalAll(int signal) {
    for (Rank& rank : ranks_ | std::views::reverse) rank.process.Signal(signal);
  }

  // Sleeps while the ranks compute, because any wake-up would disturb their measurements.
  void WaitForEvents() {
    std::vector<pollfd> polled = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    Deadline wake = Deadline::max();
    if (stop_at_.has_value() && !killed_) wake = asked_ ? *stop_at_ + options_.grace : *stop_at_;
    if (!stop_at_.has_value() && finish_by_.has_value()) wake = *finish_by_;
    for (const Rank& rank : ranks_) {
      if (!rank.ended) polled.push_back({.fd = rank.process.fd(), .events = POLLIN, .revents = 0});
    }
    poll(polled.data(), polled.size(), PollTimeout(wake));
  }

  void Reap() {
    for (Rank& rank : ranks_) {
      if (rank.ended) continue;
      const std::optional<ProcessEnd> end = rank.process.end();
      if (!end.has_value()) continue;
      rank.ended = true;
      if (!finish_by_.has_value()) finish_by_ = Clock::now() + options_.finish;
      const Failure failure{.rank = rank.index, .pid = rank.process.pid(), .end = *end};
      // A rank that ended because it was stopped is not a cause.
      if (end->ok() || (asked_ && (interruption_.has_value() || !failure.exited_by_itself()))) continue;
      failures_.push_back(failure);
      if (!stop_at_.has_value()) stop_at_ = Clock::now() + options_.settle;
    }
  }

  // `num_failures`: the number of failures before the pending requests can have arrived.
  void TakeRequests(size_t num_failures) {
    while (const auto signal = signals_.Next()) {
      if (interruption_.has_value()) {
        SignalAll(SIGKILL);  // a second signal means that the user does not want to wait
        continue;
      }
      interruption_ = signal;
      stop_at_ = Clock::now();
      // This signal also ended the ranks that ended at this time.
      failures_.erase(failures_.begin() + static_cast<std::ptrdiff_t>(num_failures), failures_.end());
    }
  }

  // Asks the ranks to stop when the time has come, and kills them after the grace period.
  void Stop() {
    if (!stop_at_.has_value() && finish_by_.has_value() && Clock::now() >= *finish_by_) {
      stop_at_ = Clock::now();
      late_ = std::ranges::find_if(ranks_, [](const Rank& rank) { return !rank.ended; })->index;
    }
    if (!stop_at_.has_value() || Clock::now() < *stop_at_) return;
    if (!asked_) {
      asked_ = true;
      SignalAll(interruption_.value_or(SIGTERM));
    } else if (!killed_ && Clock::now() >= *stop_at_ + options_.grace) {
      killed_ = true;
      SignalAll(SIGKILL);
    }
  }

  int Report() {
    // A killed rank did not fail because of another rank, even if another failure was noticed first.
    auto cause = std::ranges::find_if(failures_, &Failure::killed);
    if (cause == failures_.end()) cause = std::ranges::find_if(failures_, &Failure::exited_by_itself);
    if (cause == failures_.end()) cause = failures_.begin();
    if (cause == failures_.end() && late_.has_value()) {
      Say(Join("rank ", *late_, " did not end within ",
               std::chrono::duration<double>(options_.finish).count(),
               " s after the first rank; stopped it\n"));
      return kFailed;
    }
    if (cause == failures_.end()) {
      if (!interruption_.has_value()) return kDone;
      Say(Join("stopped all ranks on ", SignalName(*interruption_), "\n"));
      return kFailed;
    }
    if (cause->bad_arguments()) return kBadArguments;
    const std::string process = options_.with_mpirun ? "mpirun" : Join("rank ", cause->rank);
    Say(Join(process, " (pid ", cause->pid, ") ", ToString(cause->end),
             std::ssize(ranks_) > 1 ? "; stopped the other ranks\n" : "\n"));
    return kFailed;
  }

  void Say(const std::string& line) const {
    if (!WaitFor(STDERR_FILENO, POLLOUT, Clock::now() + options_.grace)) return;
    (void)!write(STDERR_FILENO, line.data(), line.size());
  }

  const LaunchOptions options_;
  std::vector<std::string> arguments_;
  StopSignals signals_;
  TemporaryDirectory directory_;
  const std::string secret_ = RandomHex();
  std::vector<Rank> ranks_;
  std::vector<Failure> failures_;  // failures in the order in which they were noticed
  std::optional<int> interruption_;
  std::optional<Deadline> stop_at_;
  std::optional<Deadline> finish_by_;  // set after a rank has ended
  std::optional<int> late_;            // the first rank that had not ended at finish_by_
  bool asked_ = false;                 // the ranks were asked to stop
  bool killed_ = false;                // the ranks were killed, because they did not stop
};

}  // namespace

int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv) {
  Require(options.world_size >= 1, "world_size is ", options.world_size, ", expected at least 1");
  const Launcher::Ending ending = Launcher(options, argv).Run();
  if (ending.signal.has_value()) EndBySignal(*ending.signal);
  return ending.status;
}

bool IsFirstToReport() {
  const char* const path = std::getenv(kReportVariable);
  if (path == nullptr) return true;
  return FileDescriptor(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).valid() || errno != EEXIST;
}

}  // namespace gradsync::comm
