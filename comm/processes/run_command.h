#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// A file in memory that receives a program's output. Unlike with a pipe, the program never waits for a
// reader.
class CapturedOutput {
 public:
  CapturedOutput();  // throws std::system_error

  int fd() const { return file_.get(); }
  std::string text() const;
  // Returns the last line that is not empty; empty if there is none.
  std::string last_line() const;

 private:
  FileDescriptor file_;
};

struct CommandResult {
  std::optional<ProcessEnd> end;  // how the program ended; nullopt if it did not end in time, and was killed
  std::string output;             // all standard output of the program
  std::string message;            // the error in one line; empty if there is no error

  bool ok() const { return end.has_value() && end->ok(); }
};

// Runs a program, looked up in PATH, to its end. The rest of `command` are its arguments; its standard input
// is empty. After `timeout`, kills the program and its process group. CommandResult::message is the last line
// of standard error, or, if there is no such line, how the program ended. Throws std::system_error if it
// cannot start.
CommandResult RunCommand(const std::vector<std::string>& command, std::chrono::milliseconds timeout,
                         EnvironmentChanges environment = {});

}  // namespace gradsync::comm
