#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "comm/processes/child_process.h"
#include "comm/processes/run_command.h"

namespace gradsync::bench {

// How long RunningProgram::Wait waits by default before it kills the program that it waits for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds kPatience{600};
#else
inline constexpr std::chrono::seconds kPatience{60};
#endif

struct ProgramResult {
  int status =
      -1;  // exit status; 128 + the signal's number if a signal ended the program; -1 if the test killed it
  std::string out;
  std::string err;
};

class RunningProgram {
 public:
  // Starts the program at `path` with the arguments `arguments`, as a child process of the test. The
  // program's environment is that of the test, in which the pairs (name, value) of `environment` add or
  // replace variables. The environment lacks the variables by which a launcher gives processes their ranks,
  // unless `environment` has them: RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, and the same names with
  // the prefix GRADSYNC_.
  RunningProgram(const std::string& path, const std::vector<std::string>& arguments,
                 const std::vector<std::pair<std::string, std::string>>& environment = {});

  pid_t pid() const { return child_->pid(); }
  bool has_ended() { return child_->end().has_value(); }
  // out returns what the program has written to its standard output so far, and err what it has written to
  // its standard error.
  std::string out() const { return out_.text(); }
  std::string err() const { return err_.text(); }
  // Waits until the program has ended. If the program still runs when Wait has waited for `patience`, kills
  // the program. The destructor also kills a program that still runs.
  ProgramResult Wait(std::chrono::seconds patience = kPatience);

 private:
  comm::CapturedOutput out_, err_;
  std::optional<comm::ChildProcess> child_;
};

ProgramResult RunProgram(const std::string& path, const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment = {});

// Makes a new directory for the temporary files of a test, and returns its path. Throws std::runtime_error if
// FreshDirectory cannot make the directory.
std::string FreshDirectory();

// Returns the benchmark records in all *.jsonl files in `directory`, in the order of the files' names. A
// record may take several lines of a file. A line that is neither the first line of a record nor a further
// line of an earlier record in the same file makes the calling test fail. If `running` is true (programs may
// still write the files), an incomplete line (one that begins with "{" but does not end with "}") is skipped,
// and does not make the test fail.
std::vector<Record> RecordsIn(const std::string& directory, bool running = false);

// Returns the contents of a file; empty if the file cannot be read.
std::string ReadText(const std::string& path);

}  // namespace gradsync::bench
