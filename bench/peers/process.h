#ifndef GRADSYNC_BENCH_PEERS_PROCESS_H_
#define GRADSYNC_BENCH_PEERS_PROCESS_H_

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"
#include "comm/processes/run_command.h"

namespace gradsync::bench {

// Another program that answers each line on its standard input with one on its standard output.
class PeerProcess {
 public:
  // Starts the first of `command`, looked up in PATH, with the rest as its arguments. `environment`: on top
  // of this process's own. It inherits the CPUs of the calling thread, and ends with this process. Throws
  // std::system_error if it cannot be started.
  PeerProcess(const std::vector<std::string>& command,
              const std::map<std::string, std::optional<std::string>>& environment);

  // Sends a line, and behind it the bytes of `payload`, and returns the line that answers it; lines are
  // without their newlines. Throws std::runtime_error if the program ends instead, with how it ended and the
  // last line of its standard error, or has not answered within `timeout`.
  std::string Ask(std::string_view line, std::chrono::milliseconds timeout,
                  std::span<const std::span<const char>> payload = {});

 private:
  void Send(std::span<const char> bytes, comm::Deadline deadline);
  // What became of it; it has closed its output.
  [[noreturn]] void ThrowEnded();

  const std::string name_;
  comm::FileDescriptor socket_;    // its standard input and output
  comm::CapturedOutput messages_;  // its standard error
  std::optional<comm::ChildProcess> child_;
  std::string unread_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PEERS_PROCESS_H_
