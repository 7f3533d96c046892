#pragma once

#include <signal.h>

#include <initializer_list>
#include <optional>

#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

sigset_t SetOf(std::initializer_list<int> signals);

// The constructor of BlockSignals blocks the signals `signals` for the calling thread. The destructor, which
// must run on the same thread, restores the signal mask from before the constructor. A thread that this
// thread starts before the destructor runs starts with these signals blocked.
class BlockSignals {
 public:
  explicit BlockSignals(const sigset_t& signals) { pthread_sigmask(SIG_BLOCK, &signals, &old_mask_); }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t old_mask_{};
};

// Receives the signals SIGINT, SIGTERM and SIGHUP in a program whose child processes do the work. While a
// StopSignals object exists, these signals do not end the program. The program must read them with Next, send
// them to its children, wait for the children, and then end. A signal that was ignored when this process
// started (nohup, a shell's background job) stays ignored. When the destructor runs, a signal that has
// arrived but that Next has not returned ends this process.
class StopSignals {
 public:
  // Construct a StopSignals while the process has only one thread: other threads that already run would not
  // block the signals. The constructor throws std::system_error if signalfd(2) fails.
  StopSignals();

  // Returns a descriptor that is readable while a signal is waiting to be read with Next.
  int fd() const { return fd_.get(); }
  // Returns a SIGINT, SIGTERM or SIGHUP that has arrived and that Next has not returned before; nullopt if
  // there is none. After a Ctrl-C, the terminal has sent SIGINT also to the children that are in this
  // process's process group. A SIGINT that the caller passes on is a second SIGINT for these children.
  std::optional<int> Next();

 private:
  FileDescriptor fd_;
  std::optional<BlockSignals> block_signals_;
};

// Flushes the output files of stdio, and then ends this process by the default action of `signal`. The parent
// process sees that `signal` ended this process. If the default action does not end this process (as in
// process 1 of a container), exits with status 128 + `signal`.
[[noreturn]] void EndBySignal(int signal);

}  // namespace gradsync::comm
