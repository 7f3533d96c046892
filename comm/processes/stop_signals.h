#ifndef GRADSYNC_COMM_PROCESSES_STOP_SIGNALS_H_
#define GRADSYNC_COMM_PROCESSES_STOP_SIGNALS_H_

#include <signal.h>

#include <optional>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// For a program whose children do the work: turns requests to stop into something to poll, so that it can
// pass them on, wait for its children, and then end as requested. A signal that was ignored when this process
// started (nohup, a shell's background job) stays ignored.
class StopSignals {
 public:
  // Construct it while the process has a single thread. Throws std::system_error.
  StopSignals();
  // Signals that were not taken from here are delivered now.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when there is a request.
  int fd() const { return fd_.get(); }
  // The next SIGINT, SIGTERM or SIGHUP that has arrived; nullopt if there is none. A terminal sends its
  // signals to all children in this process's group too.
  std::optional<int> Next();

 private:
  FileDescriptor fd_;
  sigset_t old_mask_{};
};

// Ends this process by the signal, as if it had never been caught, so that its parent sees why.
[[noreturn]] void EndBySignal(int signal);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_STOP_SIGNALS_H_
