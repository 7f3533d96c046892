#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

// Runs programs and captures their output.
namespace gradsync::comm {

// Output of a program in memory. The program never waits for a reader.
class CapturedOutput {
 public:
  CapturedOutput();  // throws std::system_error

  int fd() const { return file_.get(); }
  // The output so far.
  std::string text() const;
  // The last line that is not empty; empty if there is none.
  std::string last_line() const;

 private:
  FileDescriptor file_;
};

struct CommandResult {
  std::optional<ProcessEnd> end;  // nullopt: it did not end in time, and was killed
  std::string output;             // all of its standard output
  std::string message;            // the error in one line; empty if there is none

  bool ok() const { return end.has_value() && end->ok(); }
};

// Runs a program, looked up in PATH, to its end. The rest of `command` are its arguments; its standard input
// is empty. After `timeout` it kills the program and all processes that the program started. The message is
// the last line of its standard error, or else how it ended. Throws std::system_error if it cannot be
// started.
CommandResult RunCommand(const std::vector<std::string>& command, std::chrono::milliseconds timeout);

}  // namespace gradsync::comm
