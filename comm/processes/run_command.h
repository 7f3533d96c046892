#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// A file in memory that receives a program's output. Unlike with a pipe, the program never waits until
// another process reads its output.
class CapturedOutput {
 public:
  CapturedOutput();  // throws std::system_error

  int fd() const { return file_.get(); }
  std::string text() const;
  // Returns the last line of the output that is not empty; an empty text if there is none.
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

// Runs a program, looked up in PATH, to its end. The program is the first word of `command`, and its
// arguments are the other words. Its standard input is empty. If the program runs longer than `timeout`,
// kills it and the programs that it has started (its process group). If the program failed,
// CommandResult::message is the last line of its standard error, or, if that is empty, how it ended. After
// the timeout, the message says so. Throws std::system_error if the program cannot start.
CommandResult RunCommand(const std::vector<std::string>& command, std::chrono::milliseconds timeout,
                         EnvironmentChanges environment = {});

}  // namespace gradsync::comm
