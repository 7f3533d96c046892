// The program //bench:suite: the experiments of a preset, each in its benchmark's own process, then their
// tables and a page. A request to stop goes to the benchmark that runs, nothing is started after it, and this
// process ends by it. The exit status: 0 done, 1 something failed, 2 bad arguments, named in one line on
// stderr.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "bench/launch/tools.h"
#include "bench/peers/options.h"
#include "bench/presets/options.h"
#include "bench/records/record.h"
#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"
#include "comm/processes/run_command.h"
#include "comm/processes/stop_signals.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"
#include "model/base/exit_status.h"
#include "model/base/flags.h"
#include "model/base/standard_streams.h"

namespace gradsync::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kPatience{1};  // a check starts no ranks

void MakeDirectory(const std::string& out) {
  std::error_code error;
  // Older records would appear in the tables of this run.
  for (const auto& entry : fs::directory_iterator(out, error)) {
    const std::string name = entry.path().filename();
    Require(!name.ends_with(".jsonl") && !name.ends_with(".jsonl.gz"), "--out=", out,
            ": there are records of another run, expected an empty or a new directory");
  }
  fs::create_directories(out, error);
  Require(!error, "--out=", out, ": cannot be made: ", error.message());
}

class Suite {
 public:
  Suite(const char* argv0, std::string out, std::vector<Alternatives> experiments, std::string_view length)
      : argv0_(argv0), out_(std::move(out)), experiments_(std::move(experiments)), length_(length) {}

  // Runs the suite, and returns the exit status.
  int Run() {
    for (size_t i = 0; i < experiments_.size() && !stopped_by_; ++i) {
      for (const Experiment& next : experiments_[i]) {
        if (RunExperiment(next, Join("[", i + 1, "/", experiments_.size(), "] ", next.title))) break;
      }
    }
    WriteReports();
    return Report();
  }

  std::optional<int> stopped_by() const { return stopped_by_; }

 private:
  // Returns false if this host lacks memory; the program has printed the reason.
  bool RunExperiment(const Experiment& experiment, const std::string& title) {
    const auto begin = std::chrono::steady_clock::now();
    std::cerr << title << " begins after " << TextOf(begin - begin_) << "; all take about " << length_
              << std::endl;
    Command command = {RunfilePath(argv0_, "bench/" + experiment.program)};
    command.insert(command.end(), experiment.arguments.begin(), experiment.arguments.end());
    command.push_back(
        Join("--out=", out_, experiment.subdirectory.empty() ? "" : "/", experiment.subdirectory));
    command.emplace_back("--answer=false");
    const bool has_memory = RunProgram(title, command, experiment.title) != kLacking;
    std::cout << title << ": "
              << (has_memory ? TextOf(std::chrono::steady_clock::now() - begin)
                             : "left out, for want of memory")
              << std::endl;
    return has_memory;
  }

  static std::string TextOf(std::chrono::duration<double> time) {
    return absl::FormatDuration(absl::Seconds(std::llround(time.count())));
  }

  // Runs a program that makes a file. The file has a temporary name until it is complete.
  void Make(const std::string& name, const std::function<Command(const std::string& file)>& command) {
    const std::string path = Join(out_, "/", name), beside = Join(out_, "/new-", name);
    std::error_code error;
    if (RunProgram("writing " + name, command(beside), path) == kDone) {
      fs::rename(beside, path);
    } else {
      fs::remove(beside, error);
    }
  }

  // Writes the tables, and a page with tables, traces of subdirectories, and figures.
  void WriteReports() {
    for (const auto& [format, extension] :
         {std::pair{"markdown", "md"}, std::pair{"csv", "csv"}, std::pair{"json", "json"}}) {
      Make(Join("tables.", extension), [&, format = format](const std::string& file) {
        return TablesCommand(argv0_, out_, format, file);
      });
    }
    Make("report.html", [&](const std::string& file) { return ReportCommand(argv0_, out_, file); });
    std::cout << std::endl;
    RunProgram("printing the answer", AnswerCommand(argv0_, out_), "the answer", /*is_shown=*/true);
  }

  // Runs a program to its end and returns its exit status. If the program fails, adds `name` to the failures,
  // except for the status kLacking. Forwards signals to stop to the program; `doing` describes the work for
  // messages. A second signal kills the program.
  int RunProgram(const std::string& doing, const Command& command, const std::string& name,
                 bool is_shown = false) {
    if (stopped_by_) return kFailed;
    std::cout.flush();
    const comm::FileDescriptor nowhere = comm::OpenFile("/dev/null", O_WRONLY);
    // The program has its own process group, so that all programs that it starts can be ended.
    comm::ChildProcess child(command, {.environment = RunfilesEnvironment(argv0_),
                                       .stdout_fd = is_shown ? STDOUT_FILENO : nowhere.get(),
                                       .own_group = true});
    while (!child.end().has_value()) {
      pollfd events[] = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                         {.fd = child.fd(), .events = POLLIN, .revents = 0}};
      poll(events, 2, -1);
      while (const auto signal = signals_.Next()) {
        child.Signal(stopped_by_.has_value() ? SIGKILL : *signal);
        if (!stopped_by_) stopped_doing_ = doing;
        stopped_by_ = signal;
      }
    }
    const comm::ProcessEnd end = *child.end();
    if (!end.ok() && end.exit_status() != kLacking && !stopped_by_)
      failures_.push_back(
          Join(name, ": ", fs::path(command.front()).filename().string(), " ", comm::ToString(end)));
    return end.shell_status();
  }

  int Report() const {
    if (stopped_by_) {
      std::cerr << "suite: stopped by " << comm::SignalName(*stopped_by_) << " during " << stopped_doing_
                << "; its records so far are in " << out_ << "\n";
      return kFailed;
    }
    std::cout << "All tables, commands, flags: " << out_ << "/tables.md"
              << (fs::exists(out_ + "/report.html") ? ", report.html" : "") << std::endl;
    for (const std::string& failure : failures_) std::cerr << failure << "\n";
    return failures_.empty() ? kDone : kFailed;
  }

  comm::StopSignals signals_;
  const char* const argv0_;
  const std::string out_;
  const std::vector<Alternatives> experiments_;
  const std::string_view length_;  // of all of them
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::string> failures_;
  std::optional<int> stopped_by_;
  std::string stopped_doing_;
};

// Asks every benchmark whether it takes its flags, before the first one measures. The alternatives of an
// experiment differ only in what they need. Throws InvalidInput with the benchmark's own line.
void CheckFlags(const char* argv0, const std::vector<Alternatives>& experiments) {
  for (const Alternatives& alternatives : experiments) {
    const Experiment& first = alternatives.front();
    Command command = {RunfilePath(argv0, "bench/" + first.program)};
    command.insert(command.end(), first.arguments.begin(), first.arguments.end());
    command.emplace_back("--check_only");
    const comm::CommandResult result = comm::RunCommand(command, kPatience, RunfilesEnvironment(argv0));
    Require(!result.end || result.end->exit_status() != kBadArguments, result.message);
  }
}

int RunSuite(int argc, char** argv) try {
  SuiteOptions options;
  FlagTable flags(
      "suite",
      "Runs a set of experiments, one after the other, and ends with their answer on one screen.\n"
      "  ./bazelw run //bench:suite -- --out=DIR");
  options.AddTo(flags);
  flags.Parse(argc, argv);
  if (flags.help_requested()) {
    std::cout << flags.Usage();
    return kDone;
  }
  CheckPeerOptions(options.peers, flags);
  const auto world = comm::WorldFromEnvironment();
  Require(!world, "suite: was started by ", world ? world->launcher : "", "; it starts its ranks itself");
  std::vector<Alternatives> experiments = MakeExperiments(options);
  CheckFlags(argv[0], experiments);
  const std::string out = options.ranks.OutputDirectory(Join(Name(options.preset), "-", NewRunId()));
  MakeDirectory(out);
  auto suite = std::make_unique<Suite>(argv[0], out, std::move(experiments), Length(options.preset));
  const int status = suite->Run();
  const std::optional<int> signal = suite->stopped_by();
  suite.reset();  // The suite blocks signals until it is destroyed.
  if (signal) comm::EndBySignal(*signal);
  return status;
} catch (const InvalidInput& error) {
  std::cerr << error.what() << "\n";
  return kBadArguments;
} catch (const std::exception& error) {
  std::cerr << "suite: " << error.what() << "\n";
  return kFailed;
}

}  // namespace
}  // namespace gradsync::bench

int main(int argc, char** argv) {
  gradsync::KeepStandardStreams();
  return gradsync::WithWrittenOutput(gradsync::bench::RunSuite(argc, argv));
}
