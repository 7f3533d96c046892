#pragma once

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // If true, Open MPI's mpirun starts the ranks. It allows more ranks than cores, and root as the user.
  bool with_mpirun = false;
  // Time from the first failure until the other ranks are asked to stop. Meanwhile they may report the cause
  // of the failure. The launch ends earlier if all ranks have ended.
  std::chrono::milliseconds settle{1000};
  // Longest time between the ends of the first and the last rank; then the launch stops the ranks that still
  // run. A rank that hangs when all others have ended is found only by this limit.
  std::chrono::milliseconds finish{60'000};
  // Time from the request to stop (SIGTERM, or the signal that this process received) until ranks are killed.
  // Also the longest wait until stderr accepts the launch's last line.
  std::chrono::milliseconds grace{2000};
};

// Starts world_size processes of this program with the arguments argv (argv[0] included). Environment
// variables tell each process its rank: WorldFromEnvironment() then returns launcher "self", or mpirun sets
// its own variables. The rendezvous is a new directory under TMPDIR, removed at the end. Waits for all ranks
// and returns the exit status for main:
//
//   0  every rank exited with 0
//   1  a rank failed, or did not end in time: the others were stopped, and the last line on stderr names the
//      first cause
//   2  the first rank to fail exited with 2 (bad arguments): the others were stopped
//
// The first cause is a rank that was killed; else one that exited with a status other than 1 (a rank that
// exits with 1 has printed a cause); else the one that ended first.
int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv);

// For ranks that find bad arguments, so that only one of them prints the error; all exit with status 2.
// Returns true for the first rank of a launch that calls this function, and in a process that LaunchSelf did
// not start.
bool IsFirstToReport();

}  // namespace gradsync::comm
