#ifndef GRADSYNC_COMM_PROCESSES_LAUNCH_H_
#define GRADSYNC_COMM_PROCESSES_LAUNCH_H_

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // Has Open MPI's mpirun start the ranks, more than there are cores if need be, as root too.
  bool with_mpirun = false;
  // Time between the first failure and asking the other ranks to stop: they may report something, or turn out
  // to be the cause. Ends early when all have ended.
  std::chrono::milliseconds settle{1000};
  // Time between the end of the first rank and that of the last: nobody waits for what they still do alone.
  std::chrono::milliseconds finish{60'000};
  // Time between asking ranks to stop (SIGTERM, or the signal that this process got) and killing them. Also
  // the longest that the last line waits for a stderr that takes nothing.
  std::chrono::milliseconds grace{2000};
};

// Starts world_size copies of the program, each by executing it anew with the arguments argv (argv[0]
// included), and tells them by the environment who they are: WorldFromEnvironment() then answers "self". With
// mpirun the variables of ranks are its own. The rendezvous is a fresh directory under TMPDIR, removed at the
// end. Waits for all of them and returns the exit status for main:
//
//   0  every rank exited with 0
//   1  a rank failed, or did not end in time: the others were stopped, and the last line on stderr names the
//      first cause
//   2  the first rank to fail exited with 2 (bad arguments): the others were stopped
//
// The first cause is a rank that was killed; else one that exited with another status than 1, with which
// ranks fail that say of what; else the one that ended first.
//
// Ranks write to this process's stderr, and rank 0 also to its stdout, which for the others is stderr too.
//
// SIGINT, SIGTERM and SIGHUP are passed on to the ranks, rank 0 last; a second one kills the ranks. When all
// have ended, this process ends by that signal, and LaunchSelf does not return. Ranks never outlive this
// process, which must have a single thread. Throws InvalidInput for a world_size below 1, and
// std::system_error if a rank cannot be started.
int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv);

// For ranks that find bad arguments. The first rank of a launch to call this gets true, and says what is
// wrong; all exit with 2. In a process that LaunchSelf did not start, this is true.
bool IsFirstToReport();

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_PROCESSES_LAUNCH_H_
