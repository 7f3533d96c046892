#ifndef GRADSYNC_COMM_PROCESSES_STOP_SIGNALS_H_
#define GRADSYNC_COMM_PROCESSES_STOP_SIGNALS_H_

#include <signal.h>

#include <optional>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// For a program whose children do the work: turns requests to stop into something to poll, so that it can
// hand them on, wait for its children, and then end as it was asked to. A signal that this process was
// started with ignored (nohup, a shell's background job) stays ignored.
class StopSignals {
 public:
  // To be made while the process has a single thread. Throws std::system_error.
  StopSignals();
  // What has not been taken from here comes now.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when there is a request, or a child has ended.
  int fd() const { return fd_.get(); }
  // The next SIGINT, SIGTERM or SIGHUP that has come; nullopt if there is none. A terminal's have come to all
  // children in this process's group too.
  std::optional<int> Next();

 private:
  FileDescriptor fd_;
  sigset_t old_mask_{};
};

// Ends this process by the signal, as if it had never been caught: whoever waits for it sees why.
[[noreturn]] void EndBySignal(int signal);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_STOP_SIGNALS_H_
