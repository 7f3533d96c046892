#pragma once

#include <signal.h>

#include <initializer_list>
#include <optional>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

sigset_t SetOf(std::initializer_list<int> signals);

// Blocks signals for this thread, and for threads that it starts while signals are blocked.
class BlockSignals {
 public:
  explicit BlockSignals(const sigset_t& signals) { pthread_sigmask(SIG_BLOCK, &signals, &old_mask_); }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t old_mask_{};
};

// For a program whose child processes do the work. SIGINT, SIGTERM and SIGHUP no longer end the program: it
// reads them from a descriptor, sends them to its children, waits for the children, and then ends. A signal
// that was ignored when this process started (nohup, a shell's background job) stays ignored. The destructor
// delivers signals that Next has not returned.
class StopSignals {
 public:
  // Construct it while the process has a single thread. Throws std::system_error.
  StopSignals();

  // Returns a descriptor that is readable when a signal has arrived.
  int fd() const { return fd_.get(); }
  // Returns the next SIGINT, SIGTERM or SIGHUP that has arrived; nullopt if there is none. A Ctrl-C in a
  // terminal also reaches the children in this process's process group directly.
  std::optional<int> Next();

 private:
  FileDescriptor fd_;
  std::optional<BlockSignals> block_signals_;
};

// Ends this process by the signal's default action, so that its parent sees the signal.
[[noreturn]] void EndBySignal(int signal);

}  // namespace gradsync::comm
