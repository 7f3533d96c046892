#ifndef GRADSYNC_BENCH_PEERS_PROCESS_H_
#define GRADSYNC_BENCH_PEERS_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradsync::bench {

// Another program that answers each line on its standard input with one on its standard output.
class PeerProcess {
 public:
  // Starts the first of `command`, looked up in PATH, with the rest as its arguments. `environment`: names
  // and values on top of this process's own. It inherits the CPUs of the calling thread. Throws
  // std::runtime_error if it cannot be started.
  PeerProcess(const std::vector<std::string>& command,
              const std::vector<std::pair<std::string, std::string>>& environment);
  // Kills it.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Sends a line, and behind it the bytes of `payload`, and returns the line that answers it; lines are
  // without their newlines. Throws std::runtime_error if the program ends instead, with its status and the
  // last line of its standard error, or has not answered within `timeout`.
  std::string Ask(std::string_view line, std::chrono::milliseconds timeout,
                  std::span<const std::span<const char>> payload = {});

  // Runs a program to its end. Returns its exit status (127: it could not be started) and the last line of
  // its standard error.
  static std::pair<int, std::string> Run(const std::vector<std::string>& command);

 private:
  using Clock = std::chrono::steady_clock;

  void Send(std::span<const char> bytes, Clock::time_point deadline);
  // Waits until the socket can be read or written, as `events` says. False if it is too late.
  bool IsReady(short events, Clock::time_point deadline) const;
  // What became of it; it has closed its output.
  [[noreturn]] void ThrowEnded();

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;    // its standard input and output
  int messages_ = -1;  // its standard error, in memory
  std::string unread_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PEERS_PROCESS_H_
