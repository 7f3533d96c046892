#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// A file in memory that receives a program's output. The program never waits for a reader of its output, as
// it would if its output were a full pipe.
class CapturedOutput {
 public:
  CapturedOutput();  // throws std::system_error

  int fd() const { return file_.get(); }
  std::string text() const;
  // Returns the output's last line that is not blank, without spaces at its end; an empty text if there is
  // none.
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

// Runs a program, and returns when it has ended. The program is the first word of `command`, looked up in
// PATH if it has no slash; its arguments are the other words. The program's standard input is empty. Kills
// the program if it runs longer than `timeout`. The program leads a new process group. When the program ends
// or is killed, RunCommand kills all processes that are still in this group, such as those that the program
// has started. If the program ended within `timeout`, but not with exit status 0, CommandResult::message is
// its standard error's last non-blank line. If a failed program's standard error has no such line, the
// message says how the program ended. If the program was killed at `timeout`, the message is a text such as
// "did not end within 500 ms". Throws std::system_error if the program cannot start.
CommandResult RunCommand(const std::vector<std::string>& command, std::chrono::milliseconds timeout,
                         EnvironmentChanges environment = {});

}  // namespace gradsync::comm
