#pragma once

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // If true, Open MPI's mpirun starts the ranks. The launch then lets mpirun start more ranks than cores, and
  // run as root.
  bool with_mpirun = false;
  // Time from the first failure until the other ranks are asked to stop. Meanwhile they may report the cause
  // of the failure. If all ranks end within this time, the launch ends at once.
  std::chrono::milliseconds settle{1000};
  // Longest time between the ends of the first and the last rank; then the launch stops the ranks that still
  // run. A rank that hangs when all others have ended is found only by this limit.
  std::chrono::milliseconds finish{60'000};
  // Time from the request to stop (SIGTERM, or the signal that this process received) until ranks are killed.
  // It is also the longest time that the launch waits until stderr accepts its last line.
  std::chrono::milliseconds grace{2000};
};

// Starts world_size processes of this program with the arguments argv (argv[0] included). Environment
// variables tell each process its rank. This function sets them, and WorldFromEnvironment() then returns the
// launcher "self"; with with_mpirun, mpirun sets its own variables. The rendezvous is a new directory under
// TMPDIR, removed at the end. Waits for all ranks and returns the exit status for main:
//
//   0  every rank exited with 0
//   1  a rank failed, or did not end in time: the others were stopped, and the last line on stderr names the
//      first cause
//   2  the first rank to fail exited with 2 (bad arguments): the others were stopped
//
// The first cause is a rank that was killed; else one that exited with a status other than 1 (a rank that
// exits with 1 has printed a cause); else the one that ended first.
int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv);

// If ranks find bad arguments, each calls this function: only the rank for which it returns true prints the
// error, and all exit with status 2. Returns true for the first rank of a launch that calls this function,
// and in a process that LaunchSelf did not start.
bool IsFirstToReport();

}  // namespace gradsync::comm
