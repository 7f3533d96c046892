#ifndef GRADSYNC_COMM_PROCESSES_RUN_COMMAND_H_
#define GRADSYNC_COMM_PROCESSES_RUN_COMMAND_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

// Programs that answer with what they write.
namespace gradsync::comm {

// What a program writes to one of its standard descriptors, in memory: it never waits for a reader.
class CapturedOutput {
 public:
  CapturedOutput();  // throws std::system_error

  int fd() const { return file_.get(); }
  // All that has been written so far.
  std::string text() const;
  // The last line that is not empty; empty if there is none.
  std::string last_line() const;

 private:
  FileDescriptor file_;
};

struct CommandResult {
  std::optional<ProcessEnd> end;  // nullopt: it had not ended in time, and was killed
  std::string output;             // all of its standard output
  std::string message;            // what is wrong, in one line; empty if nothing is

  bool ok() const { return end.has_value() && end->ok(); }
};

// Runs a program, looked up in PATH, with the rest of `command` as its arguments and nothing to read, to its
// end, or, if that is later than `timeout`, kills it with all that it has started. The message is the last
// line of its standard error, or else how it ended. Throws std::system_error if it cannot be started.
CommandResult RunCommand(const std::vector<std::string>& command, std::chrono::milliseconds timeout);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_RUN_COMMAND_H_
