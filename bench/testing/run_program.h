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

// For tests that run other programs.
namespace gradsync::bench {

// What a program may take; with a sanitizer it runs some ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds kPatience{600};
#else
inline constexpr std::chrono::seconds kPatience{60};
#endif

struct ProgramResult {
  int status =
      -1;  // exit status; 128 + the signal's number for one that a signal ended; -1: had to be killed
  std::string out;
  std::string err;
};

class RunningProgram {
 public:
  // `environment`: names and values on top of this process's own, without the launchers' variables.
  RunningProgram(const std::string& path, const std::vector<std::string>& arguments,
                 const std::vector<std::pair<std::string, std::string>>& environment = {});

  pid_t pid() const { return child_->pid(); }
  bool has_ended() { return child_->end().has_value(); }
  // Its child with `name=value` in the environment, 0 if there is none (yet).
  pid_t ChildWith(const std::string& name, const std::string& value) const;
  // What it has written so far.
  std::string out() const { return out_.text(); }
  std::string err() const { return err_.text(); }
  // Waits for its end; kills it after `patience`. With this object it ends in any case.
  ProgramResult Wait(std::chrono::seconds patience = kPatience);

 private:
  comm::CapturedOutput out_, err_;
  std::optional<comm::ChildProcess> child_;
};

ProgramResult RunProgram(const std::string& path, const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment = {});

// A fresh empty directory below the test's own.
std::string FreshDirectory();

// The records of the *.jsonl in a directory, in the order of their names. A line that cannot be used fails
// the test, but for one that is cut off if the programs that write them may still be `running`.
std::vector<Record> RecordsIn(const std::string& directory, bool running = false);

// All of a file, empty if there is none.
std::string ReadText(const std::string& path);

}  // namespace gradsync::bench
