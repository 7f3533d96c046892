#pragma once

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // If with_mpirun is true, Open MPI's mpirun starts the ranks. The launch then lets mpirun start more ranks
  // than cores, and run as root.
  bool with_mpirun = false;
  // Time from the first failure of a rank until the launch asks the other ranks to stop. In this time they
  // may print the cause of the failure. If all ranks end within this time, the launch ends at once.
  std::chrono::milliseconds settle{1000};
  // Longest time between the end of the first rank and the end of the last; after it the launch stops the
  // ranks that still run. A rank that hangs when all others have ended is found only by this limit.
  std::chrono::milliseconds finish{60'000};
  // Time from the signal that asks the ranks to stop (SIGTERM, or the signal that this process received)
  // until the launch kills the ranks that still run. `grace` is also the longest time for which the launch
  // waits to write its last line to stderr, for example if stderr is a full pipe.
  std::chrono::milliseconds grace{2000};
};

// Starts world_size processes of this program with the arguments argv (argv[0] included). Environment
// variables tell each process its rank. LaunchSelf sets these variables, and WorldFromEnvironment() in the
// process then returns the launcher "self". If with_mpirun is true, mpirun sets its own variables for the
// rank. The rendezvous of the ranks is a new directory under TMPDIR, which LaunchSelf removes at the end.
// Waits for all ranks and returns the exit status for main:
//
//   0  every rank exited with 0
//   1  a rank failed, or did not end in time: the others were stopped, and the last line on stderr names the
//      first cause
//   2  the first rank to fail exited with 2 (bad arguments): the others were stopped
//
// The first cause is the first rank that a signal killed. If there is none, it is the first rank that exited
// with a status other than 0 and 1, because a rank that exits with 1 has printed a cause, perhaps the failure
// of another rank. If there is no such rank either, it is the rank that failed first.
int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv);

// Each rank that finds bad arguments calls this function. Only the rank for which it returns true prints the
// error; all these ranks exit with status 2. Returns true for the first rank of a launch that calls it, and
// for every process that LaunchSelf did not start.
bool IsFirstToReport();

}  // namespace gradsync::comm
