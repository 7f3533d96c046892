#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
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
#include <vector>

#include "bench/launch/flags.h"
#include "bench/presets/options.h"
#include "bench/records/record.h"
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

// Runs a program to its end, with its output on `stdout_path`, or on this one's if that is empty. Returns its
// exit status as a shell would.
int RunProgram(const std::string& path, const std::vector<std::string>& arguments,
               const std::string& stdout_path) {
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!stdout_path.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, stdout_path.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
  }
  std::cout.flush();
  pid_t pid = 0;
  const int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  Require(error == 0, "suite: cannot run ", path, ": ", std::strerror(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
  Suite(const Programs& programs, std::string out) : programs_(programs), out_(std::move(out)) {
    std::error_code error;
    fs::create_directories(out_, error);
    Require(!error, "--out=", out_, ": cannot be made: ", error.message());
  }

  void Run(const Experiment& experiment, size_t number, size_t count) {
    std::cout << "[" << number << "/" << count << "] " << experiment.title << std::endl;
    const auto begin = std::chrono::steady_clock::now();
    const std::string out = experiment.subdirectory.empty() ? out_ : out_ + "/" + experiment.subdirectory;
    std::vector<std::string> arguments = experiment.arguments;
    arguments.push_back("--out=" + out);
    const int status = RunProgram(programs_.Path("bench/" + experiment.program), arguments, "");
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    std::printf("%.1f s\n\n", elapsed.count());
    std::fflush(stdout);
    if (status != 0)
      failures_.push_back(Join(experiment.title, ": ", experiment.program, " ended with status ", status));
  }

  void WriteTables() {
    const std::string summarize = programs_.Path("tools/summarize");
    for (const auto& [format, extension] : {std::pair{"markdown", "md"}, std::pair{"csv", "csv"},
                                            std::pair{"json", "json"}, std::pair{"latex", "tex"}}) {
      const std::string path = Join(out_, "/tables.", extension);
      std::vector<std::string> arguments = RecordFiles(out_);
      arguments.push_back(Join("--format=", format));
      const int status = RunProgram(summarize, arguments, path);
      if (status != 0) failures_.push_back(Join(path, ": summarize ended with status ", status));
      written_.push_back(path);
    }
    std::ifstream markdown(written_.front());
    std::cout << markdown.rdbuf() << std::flush;
  }

  // Makes one page of the tables, the traces below and figures of both.
  void WritePage() {
    const std::string path = out_ + "/report.html";
    const int status = RunProgram(programs_.Path("tools/report"), {out_, "--out=" + path}, "/dev/null");
    if (status != 0) failures_.push_back(Join(path, ": report ended with status ", status));
    if (status == 0) written_.push_back(path);
  }

  // Returns the exit status.
  int Report() const {
    std::cout << "\nWrote records to " << out_ << ", tables and a report to\n";
    for (const std::string& path : written_) std::cout << "  " << path << "\n";
    std::cout << std::flush;
    for (const std::string& failure : failures_) std::cerr << failure << "\n";
    return failures_.empty() ? 0 : 1;
  }

 private:
  const Programs& programs_;
  const std::string out_;
  std::vector<std::string> written_;
  std::vector<std::string> failures_;
};

int Main(int argc, char** argv) {
  SuiteOptions options;
  FlagTable flags("suite",
                  "Runs a set of experiments, one after the other, and prints their tables.\n"
                  "  bazel run //bench:suite -- --preset=smoke --out=DIR");
  options.AddTo(flags);
  flags.Parse(argc, argv);
  if (flags.help_requested()) {
    std::cout << flags.Usage();
    return 0;
  }
  const auto world = comm::WorldFromEnvironment();
  Require(!world, "suite: was started by ", world ? world->launcher : "", "; it starts its ranks itself");
  std::vector<std::string> notes;
  const std::vector<Experiment> experiments = MakeExperiments(options, &notes);
  const std::string out = OutputDirectory(options.ranks, options.preset + "-" + NewRunId());
  // They would end up in the same tables.
  Require(RecordFiles(out).empty(), "--out=", out,
          ": there are records of another run, expected an empty or a new directory");
  const Programs programs(argv[0]);
  Suite suite(programs, out);
  for (const std::string& note : notes) std::cout << note << "\n";
  for (size_t i = 0; i < experiments.size(); ++i) suite.Run(experiments[i], i + 1, experiments.size());
  suite.WriteTables();
  suite.WritePage();
  return suite.Report();
}

}  // namespace
}  // namespace gradsync::bench

int main(int argc, char** argv) {
  try {
    return gradsync::bench::Main(argc, argv);
  } catch (const gradsync::InvalidInput& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "suite: " << error.what() << "\n";
    return 1;
  }
}
