#include "bench/presets/run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/presets/options.h"
#include "bench/records/record.h"
#include "comm/child_process.h"
#include "comm/file_descriptor.h"
#include "comm/stop_signals.h"
#include "comm/world.h"
#include "model/error.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace gradsync::bench {
namespace {

namespace fs = std::filesystem;
using ::bazel::tools::cpp::runfiles::Runfiles;

// The programs that this one runs, found where Bazel put them.
class Programs {
 public:
  explicit Programs(const char* argv0) {
    std::string error;
    runfiles_.reset(Runfiles::Create(argv0, &error));
    Require(runfiles_ != nullptr, "suite: cannot find the programs it runs: ", error);
  }

  // "bench/ddp" -> its path.
  std::string Path(const std::string& target) const {
    std::string path = runfiles_->Rlocation("gradsync/" + target);
    Require(access(path.c_str(), X_OK) == 0, "suite: cannot run ", path, ": ", std::strerror(errno));
    return path;
  }

 private:
  std::unique_ptr<Runfiles> runfiles_;
};

// The files of records in `directory` itself: what lies below, such as traced runs, is in no table.
std::vector<std::string> RecordFiles(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".jsonl") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Suite {
 public:
  Suite(const char* argv0, std::string out) : programs_(argv0), out_(std::move(out)) {
    // They would end up in the same tables.
    Require(RecordFiles(out_).empty(), "--out=", out_,
            ": there are records of another run, expected an empty or a new directory");
    std::error_code error;
    fs::create_directories(out_, error);
    Require(!error, "--out=", out_, ": cannot be made: ", error.message());
  }

  SuiteEnd Run(const std::vector<Experiment>& experiments) {
    for (size_t i = 0; i < experiments.size() && !stopped_by_; ++i) {
      RunExperiment(experiments[i], Join("[", i + 1, "/", experiments.size(), "] ", experiments[i].title));
    }
    if (!stopped_by_) WriteTables();
    if (!stopped_by_) WritePage();
    return Report();
  }

 private:
  void RunExperiment(const Experiment& experiment, const std::string& title) {
    std::cout << title << std::endl;
    const auto begin = std::chrono::steady_clock::now();
    const std::string out = experiment.subdirectory.empty() ? out_ : out_ + "/" + experiment.subdirectory;
    std::vector<std::string> command = {programs_.Path("bench/" + experiment.program)};
    command.insert(command.end(), experiment.arguments.begin(), experiment.arguments.end());
    command.push_back("--out=" + out);
    RunProgram(title, command, STDOUT_FILENO, Join(experiment.title, ": ", experiment.program));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f s\n\n", elapsed.count());
    std::fflush(stdout);
  }

  void WriteTables() {
    const std::string summarize = programs_.Path("tools/summarize");
    for (const auto& [format, extension] : {std::pair{"markdown", "md"}, std::pair{"csv", "csv"},
                                            std::pair{"json", "json"}, std::pair{"latex", "tex"}}) {
      const std::string path = Join(out_, "/tables.", extension);
      std::vector<std::string> command = RecordFiles(out_);
      command.insert(command.begin(), summarize);
      command.push_back(Join("--format=", format));
      const comm::FileDescriptor file = comm::OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC);
      RunProgram("writing tables", command, file.get(), Join(path, ": summarize"));
      written_.push_back(path);
    }
    std::ifstream markdown(written_.front());
    std::cout << markdown.rdbuf() << std::flush;
  }

  // Makes one page of the tables, the traces below and figures of both.
  void WritePage() {
    const std::string path = out_ + "/report.html";
    const comm::FileDescriptor nothing = comm::OpenFile("/dev/null", O_WRONLY);
    const bool ok = RunProgram("writing the report", {programs_.Path("tools/report"), out_, "--out=" + path},
                               nothing.get(), path + ": report");
    if (ok) written_.push_back(path);
  }

  // Runs a program to its end and returns whether it did what it should; if not, it is among the failures,
  // under `name`. Hands on what asks this process to stop, `doing` something; whoever asks again does not
  // want to wait.
  bool RunProgram(const std::string& doing, const std::vector<std::string>& command, int stdout_fd,
                  const std::string& name) {
    std::cout.flush();
    // In a group of its own, so that no program is left of those that it starts.
    comm::ChildProcess child(command, {.stdout_fd = stdout_fd, .own_group = true});
    while (!child.end().has_value()) {
      pollfd signals{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
      poll(&signals, 1, -1);  // the end of a child wakes it too
      while (const auto signal = signals_.Next()) {
        child.Signal(stopped_by_.has_value() ? SIGKILL : *signal);
        if (!stopped_by_) stopped_doing_ = doing;
        stopped_by_ = signal;
      }
    }
    const comm::ProcessEnd end = *child.end();
    if (!end.ok() && !stopped_by_) failures_.push_back(Join(name, " ", comm::ToString(end)));
    return end.ok();
  }

  SuiteEnd Report() const {
    if (stopped_by_) {
      std::cerr << "suite: stopped by " << comm::SignalName(*stopped_by_) << " during " << stopped_doing_
                << "; finished records are in " << out_ << "\n";
      return {.signal = stopped_by_};
    }
    std::cout << "\nWrote records to " << out_ << ", tables and a report to\n";
    for (const std::string& path : written_) std::cout << "  " << path << "\n";
    std::cout << std::flush;
    for (const std::string& failure : failures_) std::cerr << failure << "\n";
    return {.status = failures_.empty() ? 0 : 1};
  }

  comm::StopSignals signals_;
  const Programs programs_;
  const std::string out_;
  std::vector<std::string> written_;
  std::vector<std::string> failures_;
  std::optional<int> stopped_by_;
  std::string stopped_doing_;
};

}  // namespace

SuiteEnd RunSuite(int argc, char** argv) {
  SuiteOptions options;
  FlagTable flags("suite",
                  "Runs a set of experiments, one after the other, and prints their tables.\n"
                  "  bazel run //bench:suite -- --preset=smoke --out=DIR");
  options.AddTo(flags);
  flags.Parse(argc, argv);
  if (flags.help_requested()) {
    std::cout << flags.Usage();
    return {};
  }
  const auto world = comm::WorldFromEnvironment();
  Require(!world, "suite: was started by ", world ? world->launcher : "", "; it starts its ranks itself");
  std::vector<std::string> notes;
  const std::vector<Experiment> experiments = MakeExperiments(options, &notes);
  Suite suite(argv[0], OutputDirectory(options.ranks, options.preset + "-" + NewRunId()));
  for (const std::string& note : notes) std::cout << note << "\n";
  return suite.Run(experiments);
}

}  // namespace gradsync::bench
