#include "bench/presets/run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/launch/runfile.h"
#include "bench/presets/options.h"
#include "bench/presets/state.h"
#include "bench/records/record.h"
#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"
#include "comm/processes/stop_signals.h"
#include "comm/rendezvous/world.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

namespace fs = std::filesystem;

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

void MakeDirectory(const std::string& out) {
  // They would end up in the same tables.
  Require(RecordFiles(out).empty(), "--out=", out,
          ": there are records of another run, expected an empty or a new directory, or --resume");
  std::error_code error;
  fs::create_directories(out, error);
  Require(!error, "--out=", out, ": cannot be made: ", error.message());
}

class Suite {
 public:
  Suite(const char* argv0, std::string out, SuiteState state)
      : argv0_(argv0), out_(std::move(out)), state_(std::move(state)) {
    SetUnfinishedAside(state_, out_);
    SaveState(state_, out_);
  }

  SuiteEnd Run() {
    const size_t total = state_.experiments.size();
    for (size_t i = 0; i < total && !stopped_by_; ++i) {
      Progressed& next = state_.experiments[i];
      const std::string title = Join("[", i + 1, "/", total, "] ", next.experiment.title);
      if (next.done) {
        std::cout << title << ": kept" << std::endl;
        continue;
      }
      RunExperiment(next, title);
      SaveState(state_, out_);
    }
    WriteReports();
    return Report();
  }

 private:
  void RunExperiment(Progressed& progressed, const std::string& title) {
    const Experiment& experiment = progressed.experiment;
    std::cout << title << std::endl;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<std::string> before = FilesOf(experiment, out_);
    std::vector<std::string> command = {RunfilePath(argv0_, "bench/" + experiment.program)};
    command.insert(command.end(), experiment.arguments.begin(), experiment.arguments.end());
    command.push_back(
        Join("--out=", out_, experiment.subdirectory.empty() ? "" : "/", experiment.subdirectory));
    progressed.done =
        RunProgram(title, command, STDOUT_FILENO, Join(experiment.title, ": ", experiment.program));
    std::ranges::set_difference(FilesOf(experiment, out_), before, std::back_inserter(progressed.files));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f s\n\n", elapsed.count());
    std::fflush(stdout);
  }

  // Has a program make a file, beside its place until it is whole.
  void Make(const std::string& name, const char* program, std::vector<std::string> command) {
    const std::string path = Join(out_, "/", name), beside = path + ".new";
    command.insert(command.begin(), RunfilePath(argv0_, Join("tools/", program)));
    command.push_back("--out=" + beside);
    std::error_code error;
    if (!RunProgram("writing " + name, command, comm::OpenFile("/dev/null", O_WRONLY).get(),
                    Join(path, ": ", program))) {
      fs::remove(beside, error);
      return;
    }
    fs::rename(beside, path);
    written_.push_back(path);
    if (name.ends_with(".md")) std::cout << std::ifstream(path).rdbuf() << std::flush;
  }

  // The tables, and one page of them, the traces below and figures of both.
  void WriteReports() {
    for (const auto& [format, extension] :
         {std::pair{"markdown", "md"}, std::pair{"csv", "csv"}, std::pair{"json", "json"}}) {
      std::vector<std::string> command = RecordFiles(out_);
      command.push_back(Join("--format=", format));
      Make(Join("tables.", extension), "summarize", std::move(command));
    }
    Make("report.html", "report", {out_});
  }

  // Runs a program to its end and returns whether it did what it should; if not, it is among the failures,
  // under `name`. Hands on what asks this process to stop, `doing` something; whoever asks again does not
  // want to wait.
  bool RunProgram(const std::string& doing, const std::vector<std::string>& command, int stdout_fd,
                  const std::string& name) {
    if (stopped_by_) return false;
    std::cout.flush();
    // In a group of its own, so that no program is left of those that it starts.
    comm::ChildProcess child(command, {.stdout_fd = stdout_fd, .own_group = true});
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
    if (!end.ok() && !stopped_by_) failures_.push_back(Join(name, " ", comm::ToString(end)));
    return end.ok();
  }

  SuiteEnd Report() const {
    if (stopped_by_) {
      std::cerr << "suite: stopped by " << comm::SignalName(*stopped_by_) << " during " << stopped_doing_
                << "; --resume=" << out_ << " goes on\n";
      return {.signal = stopped_by_};
    }
    std::cout << "\nWrote records to " << out_ << ", tables and a report to\n";
    for (const std::string& path : written_) std::cout << "  " << path << "\n";
    std::cout << std::flush;
    for (const std::string& failure : failures_) std::cerr << failure << "\n";
    return {.status = failures_.empty() ? 0 : 1};
  }

  comm::StopSignals signals_;
  const char* const argv0_;
  const std::string out_;
  SuiteState state_;
  std::vector<std::string> written_;
  std::vector<std::string> failures_;
  std::optional<int> stopped_by_;
  std::string stopped_doing_;
};

}  // namespace

SuiteEnd RunSuite(int argc, char** argv) {
  SuiteOptions options;
  if (std::string_view(argv[0]).ends_with("/resolution")) options.preset = "resolution";
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
  if (!options.resume.empty()) {
    for (const auto& [flag, value] : flags.Values({"resume"})) {
      Require(!flags.given(flag.substr(2)), flag,
              ": cannot be given beside --resume, which goes on as before");
    }
    return Suite(argv[0], options.resume, LoadState(options.resume)).Run();
  }
  for (const char* const flag : {"model", "time", "delay_us"}) {
    Require(!flags.given(flag) || options.preset == "resolution", "--", flag,
            ": only --preset=resolution takes it");
  }
  std::vector<std::string> notes;
  SuiteState state;
  for (Experiment& experiment : MakeExperiments(options, &notes)) {
    state.experiments.push_back({.experiment = std::move(experiment)});
  }
  const std::string out = OutputDirectory(options.ranks, options.preset + "-" + NewRunId());
  MakeDirectory(out);
  for (const std::string& note : notes) std::cout << note << "\n";
  return Suite(argv[0], out, std::move(state)).Run();
}

}  // namespace gradsync::bench
